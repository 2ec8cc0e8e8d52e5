"""Heartbeats: what a factory says of itself, and what it is told."""

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from litestar import post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.decoding import FactoryId, JobId, Line, Word
from gigafactory.api.http.examples import JOB_ID, NOON
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render import fleet as views
from gigafactory.api.render.jobs import moment
from gigafactory.api.workers.reports import Sent
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure
from gigafactory.domain.manifest.capability import advertised

TAG = "Factories"
COOLING_MAX = timedelta(days=31)

Seats = Annotated[int, Meta(ge=0, le=1000)]
Fraction = Annotated[
    float, Meta(ge=0, le=100, description="0 to 1; above 1 it is read as per cent")
]
EngineName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$(?!\n)")]
Labels = Annotated[tuple[Line, ...], Meta(max_length=100)]


class EngineDoc(Sent, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One engine on the factory."""

    version: Word | None = None
    seats: Seats = 1
    cooling_until: Annotated[datetime, Meta(tz=True)] | None = None
    unavailable: Line | None = None


class HeartbeatDoc(Sent, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What a factory says of itself; what it does not know may be left away."""

    factory_id: FactoryId
    instance_id: Word
    capabilities: Annotated[tuple[str, ...], Meta(max_length=500)] = ()
    engines: Annotated[dict[EngineName, EngineDoc], Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    seats: Annotated[dict[EngineName, Seats], Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Instead of engines, where only their seats are known."""
    slots: Seats = 0
    running: Annotated[tuple[JobId, ...], Meta(max_length=1000)] = ()
    repos: Annotated[tuple[Word, ...], Meta(max_length=1000)] = ()
    labels: Labels = ()
    os: Word | None = None
    may_clone: bool = True
    cost_class: Annotated[int, Meta(ge=0, le=3)] = 1
    sandbox: Word | None = None
    load: Annotated[float, Meta(ge=0, le=10_000)] | None = None
    cpu: Fraction | None = None
    memory: Fraction | None = None
    disk: Fraction | None = None
    version: Word | None = None

    def read(self, now: datetime) -> Factory:
        """The factory as it describes itself; what only the coordinator knows is filled in there.

        Raises Invalid for capabilities that are none.
        """
        advertised(self.capabilities, what="the heartbeat")
        engines = {name: _seats(name, told, now) for name, told in self.engines.items()}
        for name, count in self.seats.items():
            known = engines.get(name, EngineSeats())
            engines[name] = msgspec.structs.replace(known, seats=count)
        return Factory(
            id=self.factory_id,
            token_id="",
            instance_id=self.instance_id,
            os=self.os,
            labels=self.labels,
            capabilities=self.capabilities,
            engines=engines,
            slots=self.slots,
            repos=self.repos,
            may_clone=self.may_clone,
            cost_class=self.cost_class,
            sandbox=self.sandbox,
            version=self.version,
            enrolled_at=now,
        )

    @property
    def pressure(self) -> Pressure:
        """How hard the machine works."""
        return Pressure(
            load=self.load,
            cpu=_fraction(self.cpu),
            memory=_fraction(self.memory),
            disk=_fraction(self.disk),
        )


def _fraction(told: float | None) -> float | None:
    return told if told is None or told <= 1 else told / 100


def _seats(name: str, told: EngineDoc, now: datetime) -> EngineSeats:
    until = told.cooling_until
    if until is not None and until - now > COOLING_MAX:
        fault = Fault(
            f"engines.{name}.coolingUntil", f"is more than {COOLING_MAX.days} days from now"
        )
        raise Invalid("the heartbeat", [fault])
    return EngineSeats(
        version=told.version,
        seats=told.seats,
        cooling_until=until and until.replace(microsecond=until.microsecond // 1000 * 1000),
        unavailable=told.unavailable,
    )


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
        takes=Body(of=HeartbeatDoc, example=HEARTBEAT),
        gives={
            200: Body(
                of=views.HeartbeatView,
                example={
                    "serverTime": NOON,
                    "settings": {"leaseTtlSec": 90, "renewSec": 20, "heartbeatSec": 15},
                    "commands": [{"type": "cancel", "jobId": JOB_ID}],
                },
            )
        },
        refuses=(404, 409),
    ),
)
async def heartbeat(request: Call) -> ASGIApp:
    """Say that a factory is there, what it has and what it runs; hear what it must do."""
    caller = await request.caller()
    told = await request.decoded(HeartbeatDoc)
    coordinator = request.coordinator
    commands = await coordinator.factories.heartbeat(
        caller, told.read(coordinator.clock.now()), told.pressure, told.running
    )
    settings = coordinator.settings
    return answer(
        views.HeartbeatView(
            server_time=moment(coordinator.clock.now()),
            settings=views.SettingsView(
                lease_ttl_sec=settings.lease_ttl.total_seconds(),
                renew_sec=settings.renew_every.total_seconds(),
                heartbeat_sec=settings.heartbeat_every.total_seconds(),
            ),
            commands=list(commands),
        )
    )


ROUTES = (heartbeat,)
