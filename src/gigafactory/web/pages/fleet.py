"""The page of the fleet: a card for each factory, and the command that adds another."""

from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.call import Call
from gigafactory.domain.access import ALLOWED
from gigafactory.web.fleet_cards import cards
from gigafactory.web.live import Part, stream
from gigafactory.web.rendering import page, rendered, see_other
from gigafactory.web.visit import Sent, Visit, sent, visit

VERBS = ("drain", "deregister", "enroll", "halt")


async def _part(request: Call, visitor: Visit) -> Part:
    coordinator, caller = request.coordinator, visitor.caller
    html = rendered(
        "_fleet.html",
        cards=await cards(coordinator, caller),
        switches=[switch for switch in await coordinator.switches.all(caller) if switch.halted],
        may={verb for verb in VERBS if caller.role in ALLOWED[verb]},
        csrf=visitor.csrf,
        now=coordinator.clock.now(),
    )
    return Part(html, "Fleet · Gigafactory", "/icon.svg")


@get("/fleet")
async def fleet_page(request: Call) -> ASGIApp:
    """Show every factory."""
    visitor = await visit(request)
    return _shown(request, visitor, await _part(request, visitor))


def _shown(request: Call, visitor: Visit, part: Part, secret: str = "") -> ASGIApp:
    base = str(request.base_url).rstrip("/")
    may = ALLOWED["enroll"]
    enrols = visitor.caller.role in may
    return page(request, visitor, "fleet.html", part=part, secret=secret, base=base, enrols=enrols)


@get("/live/fleet")
async def live_fleet(request: Call) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    return stream(request, visitor.caller, ("fleet", visitor.csrf), lambda: _part(request, visitor))


@post("/fleet/enroll")
async def invite(request: Call) -> ASGIApp:
    """Make a one-time secret, and show the command to paste on the new machine."""
    visitor, _ = await sent(request, Sent)
    made = await request.coordinator.enrolment.invite(visitor.caller, visitor.caller.products)
    return _shown(request, visitor, await _part(request, visitor), made.secret)


@post("/fleet/{factory_id:str}/{verb:str}")
async def change(request: Call) -> ASGIApp:
    """Drain a factory, let it go on, or take it out of the fleet."""
    visitor, _ = await sent(request, Sent)
    factory_id = request.named("factory_id", "factory")
    coordinator, caller = request.coordinator, visitor.caller
    match request.named("verb", "action"):
        case "deregister":
            await coordinator.enrolment.deregister(caller, factory_id)
        case verb:
            await coordinator.factories.drain(caller, factory_id, draining=verb == "drain")
    return see_other("/fleet")


class Halting(Sent, frozen=True, kw_only=True):
    """The kill switch, and why it is turned."""

    reason: Annotated[str, Meta(max_length=1000)] = ""


@post("/halt")
async def halt(request: Call) -> ASGIApp:
    """Stop all grants: of the chosen product, or of everything."""
    return await _turned(request, halted=True)


@post("/resume")
async def resume(request: Call) -> ASGIApp:
    """Let grants go on."""
    return await _turned(request, halted=False)


async def _turned(request: Call, *, halted: bool) -> ASGIApp:
    visitor, form = await sent(request, Halting)
    caller = visitor.caller
    switches = request.coordinator.switches
    await switches.turn(caller, caller.product, halted=halted, reason=form.reason)
    return see_other("/fleet")


ROUTES = (fleet_page, live_fleet, invite, change, halt, resume)
