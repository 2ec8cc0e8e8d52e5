"""The fleet as a whole: its queue version, what needs a person, its numbers, the kill switch."""

import msgspec
from litestar import get, post
from litestar.types import ASGIApp
from msgspec import UNSET

from gigafactory.api.http.decoding import ProductId, Sentence
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render import fleet as views
from gigafactory.api.render.jobs import View
from gigafactory.coordinator.insights.metrics import FleetMetrics

TAG = "Fleet"


class QueueState(View, frozen=True, kw_only=True):
    """The version moves with every create and stage change; while it stands, a claim is idle."""

    version: int
    products: dict[str, int]


@get(
    "/queue-state",
    opt=operation(
        TAG,
        gives={200: Body(of=QueueState, example={"version": 17, "products": {"notes": 17}})},
    ),
)
async def queue_state(request: Call) -> ASGIApp:
    """Read the queue version of the chosen product, or of all that the token covers."""
    caller = await request.caller()
    index = request.coordinator.index
    await index.follow()
    chosen = {
        product: version
        for product, version in index.versions.items()
        if product != "*" and caller.sees(product) and caller.product in (None, product)
    }
    return answer(QueueState(version=max(chosen.values(), default=0), products=chosen))


class AttentionView(View, frozen=True, kw_only=True):
    """What waits for a person, the most urgent kind first."""

    attention: list[views.MatterView]


@get("/attention", opt=operation(TAG, gives={200: Body(of=AttentionView)}))
async def attention(request: Call) -> ASGIApp:
    """List what waits for a person: halts, reviews, ships, failures, stuck jobs, lost factories."""
    caller = await request.caller()
    matters = await request.coordinator.attention.list(caller)
    return answer(AttentionView(attention=[views.matter(each) for each in matters]))


@get("/metrics", opt=operation(TAG, gives={200: Body(of=FleetMetrics)}))
async def fleet_metrics(request: Call) -> ASGIApp:
    """Show the fleet in numbers: jobs by stage, queue depth, factories and how busy they are."""
    caller = await request.caller()
    return answer(await request.coordinator.metrics.fleet_metrics(caller))


class SwitchesView(View, frozen=True, kw_only=True):
    """The switches that concern the caller, those that are off too."""

    switches: list[views.SwitchView]


@get("/switches", opt=operation(TAG, gives={200: Body(of=SwitchesView)}))
async def list_switches(request: Call) -> ASGIApp:
    """List the kill switches, of the fleet (`*`) and of products."""
    caller = await request.caller()
    found = await request.coordinator.switches.all(caller)
    return answer(SwitchesView(switches=[views.switch(switch) for switch in found]))


class HaltDoc(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is halted, and why."""

    product: ProductId | None = None
    """One product; without it, the whole fleet."""
    reason: Sentence = ""
    stop: bool = False
    """Ask running workers to checkpoint and hand back, too."""


@post(
    "/halt",
    opt=operation(
        TAG,
        takes=Body(of=HaltDoc, example={"product": "notes", "reason": "bad release"}),
        gives={200: Body(of=views.SwitchView)},
        refuses=(409,),
        optional_body=True,
    ),
)
async def halt(request: Call) -> ASGIApp:
    """Stop all offers and grants: after this answer there is not one more.

    Running work goes on, unless `stop` asks for it to be handed back.
    """
    caller = await request.caller()
    asked = await request.decoded(HaltDoc)
    switches = request.coordinator.switches
    switch = await switches.turn(caller, asked.product, halted=True, reason=asked.reason)
    stopping = await switches.stop(caller, asked.product) if asked.stop else UNSET
    return answer(views.switch(switch, stopping=stopping))


class ResumeDoc(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is resumed, and why."""

    product: ProductId | None = None
    reason: Sentence = ""


@post(
    "/resume",
    opt=operation(
        TAG,
        takes=Body(of=ResumeDoc, example={"product": "notes"}),
        gives={200: Body(of=views.SwitchView)},
        refuses=(409,),
        optional_body=True,
    ),
)
async def resume(request: Call) -> ASGIApp:
    """Let offers and grants go on."""
    caller = await request.caller()
    asked = await request.decoded(ResumeDoc)
    switch = await request.coordinator.switches.turn(
        caller, asked.product, halted=False, reason=asked.reason
    )
    return answer(views.switch(switch))


ROUTES = (queue_state, attention, fleet_metrics, list_switches, halt, resume)
