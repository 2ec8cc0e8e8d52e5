"""Heartbeat endpoint."""

from litestar import post
from litestar.types import ASGIApp

from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.wire.fields import timestamp
from gigafactory.wire.fleet import HeartbeatDoc, HeartbeatView, SettingsView

TAG = "Factories"


HEARTBEAT = {
    "factoryId": "mac-1",
    "instanceId": "01jqx5w0v8",
    "capabilities": ["os:mac", "has:xcode", "node:20.11.1"],
    "engines": {"claude": {"version": "2.1.0", "seats": 2}},
    "slots": 4,
    "running": [JOB_ID],
    "repos": ["notes"],
    "labels": [],
    "costClass": 0,
    "sandbox": "workspace",
    "load": 0.4,
    "cpu": 0.3,
    "memory": 0.6,
    "disk": 0.5,
    "version": "0.1.0",
}


@post(
    "/factories/heartbeat",
    opt=operation(
        TAG,
        body=Body(of=HeartbeatDoc, example=HEARTBEAT),
        responses={
            200: Body(
                of=HeartbeatView,
                example={
                    "serverTime": NOON,
                    "settings": {"leaseTtlSec": 90, "renewSec": 20, "heartbeatSec": 15},
                    "commands": [{"type": "cancel", "jobId": JOB_ID}],
                },
            )
        },
        errors=(404, 409),
    ),
)
async def heartbeat(request: ApiRequest) -> ASGIApp:
    """Send a factory's heartbeat: its state, engines and running jobs; returns commands."""
    caller = await request.factory()
    doc = await request.json_body(HeartbeatDoc)
    coordinator = request.coordinator
    commands = await coordinator.factories.heartbeat(
        caller, doc.to_domain(coordinator.clock.now()), doc.pressure, doc.running
    )
    settings = coordinator.settings
    return json_response(
        HeartbeatView(
            server_time=timestamp(coordinator.clock.now()),
            settings=SettingsView(
                lease_ttl_sec=settings.lease_ttl.total_seconds(),
                renew_sec=settings.renew_every.total_seconds(),
                heartbeat_sec=settings.heartbeat_every.total_seconds(),
            ),
            commands=tuple(commands),
        )
    )


ROUTES = (heartbeat,)
