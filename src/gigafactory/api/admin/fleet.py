"""Fleet endpoints: queue version, attention items, metrics, halt switch."""

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import UNSET

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import fleet as views
from gigafactory.wire.admin import (
    AttentionView,
    HaltDoc,
    QueueState,
    ResumeDoc,
    SwitchesView,
    SwitchView,
)
from gigafactory.wire.fleet import FleetMetrics

TAG = "Fleet"


@get(
    "/queue-state",
    opt=operation(
        TAG,
        responses={200: Body(of=QueueState, example={"version": 17, "products": {"notes": 17}})},
    ),
)
async def queue_state(request: ApiRequest) -> ASGIApp:
    """Return the queue version of the chosen product, or of all products of the token."""
    caller = await request.caller()
    index = request.coordinator.index
    await index.catch_up()
    chosen = {
        product: version
        for product, version in index.queue_versions.items()
        if product != "*" and caller.can_see(product) and caller.product in (None, product)
    }
    return json_response(QueueState(version=max(chosen.values(), default=0), products=chosen))


@get("/attention", opt=operation(TAG, responses={200: Body(of=AttentionView)}))
async def attention(request: ApiRequest) -> ASGIApp:
    """List attention items: halts, reviews, ships, failures, stuck jobs, lost factories."""
    caller = await request.caller()
    items = await request.coordinator.attention.list(caller)
    return json_response(
        AttentionView(attention=tuple(views.render_attention_item(each) for each in items))
    )


@get("/metrics", opt=operation(TAG, responses={200: Body(of=FleetMetrics)}))
async def fleet_metrics(request: ApiRequest) -> ASGIApp:
    """Return fleet metrics: jobs by stage, queue depth, factory capacity."""
    caller = await request.caller()
    return json_response(await request.coordinator.metrics.fleet_metrics(caller))


@get("/switches", opt=operation(TAG, responses={200: Body(of=SwitchesView)}))
async def list_switches(request: ApiRequest) -> ASGIApp:
    """List the halt switches of the fleet (`*`) and of products."""
    caller = await request.caller()
    switches = await request.coordinator.halt_switches.all(caller)
    return json_response(
        SwitchesView(switches=tuple(views.render_switch(switch) for switch in switches))
    )


@post(
    "/halt",
    opt=operation(
        TAG,
        body=Body(of=HaltDoc, example={"product": "notes", "reason": "bad release"}),
        responses={200: Body(of=SwitchView)},
        errors=(409,),
        optional_body=True,
    ),
)
async def halt(request: ApiRequest) -> ASGIApp:
    """Halt all offers and grants; none is made after this response.

    Running work continues, unless `stop` is set: then workers are asked to release their jobs.
    """
    caller = await request.caller("halt")
    doc = await request.json_body(HaltDoc)
    switches = request.coordinator.halt_switches
    switch = await switches.set_halted(caller, doc.product, halted=True, reason=doc.reason)
    stopping = await switches.stop_running(caller, doc.product) if doc.stop else UNSET
    return json_response(views.render_switch(switch, stopping=stopping))


@post(
    "/resume",
    opt=operation(
        TAG,
        body=Body(of=ResumeDoc, example={"product": "notes"}),
        responses={200: Body(of=SwitchView)},
        errors=(409,),
        optional_body=True,
    ),
)
async def resume(request: ApiRequest) -> ASGIApp:
    """Resume offers and grants."""
    caller = await request.caller("halt")
    doc = await request.json_body(ResumeDoc)
    switch = await request.coordinator.halt_switches.set_halted(
        caller, doc.product, halted=False, reason=doc.reason
    )
    return json_response(views.render_switch(switch))


ROUTES = (queue_state, attention, fleet_metrics, list_switches, halt, resume)
