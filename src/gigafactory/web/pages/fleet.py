"""The page of the fleet: a card for each factory, and the command that adds another."""

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller, Enrollment
from gigafactory.web.presenters.factory_cards import cards
from gigafactory.web.site.live import Part, stream
from gigafactory.web.site.rendering import page, rendered, see_other
from gigafactory.web.site.session import Back, Sent, Visit, address_of, sent, visit
from gigafactory.wire.fleet import Membership

VERBS = ("drain", "deregister", "enroll", "halt")
DONE = {
    "drain": "takes nothing new; what it runs goes on to its end, and then it stops.",
    "resume": "takes work again; if it has stopped, start it there with `aq factory run`.",
    "revoke": "gets nothing any more: its token has ended, and what it ran goes on elsewhere.",
    "deregister": "is out of the fleet.",
    "withdraw": "The invitation was taken back: its secret opens nothing any more.",
}
"""What is said when it was done."""


async def _part(request: ApiRequest, visitor: Visit) -> Part:
    coordinator, caller = request.coordinator, visitor.caller
    html = rendered(
        "_fleet.html",
        cards=await cards(coordinator, caller),
        switches=[s for s in await coordinator.halt_switches.all(caller) if s.halted],
        stops=caller.product or FLEET,
        may={verb for verb in VERBS if caller.role in ROLES_BY_VERB[verb]},
        invitations=await _open(request, caller),
        csrf=visitor.csrf,
        now=coordinator.clock.now(),
    )
    return Part(html, "Fleet · Gigafactory", "/icon.svg")


async def _open(request: ApiRequest, caller: Caller) -> Sequence[Enrollment]:
    """The invitations by which a machine can still join, for those who may make them."""
    if caller.role not in ROLES_BY_VERB["enroll"]:
        return ()
    now = request.coordinator.clock.now()
    known = await request.coordinator.enrolment.invitations(caller)
    return [each for each in known if each.used_by is None and now < each.expires_at]


class Done(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was just done, to be said on the page."""

    did: Annotated[str, Meta(max_length=20)] = ""
    to: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,200}$(?!\n)")] = ""


@get("/fleet")
async def fleet_page(request: ApiRequest) -> ASGIApp:
    """Show every factory."""
    visitor = await visit(request)
    asked = request.query(Done)
    told = f"{asked.to} {DONE[asked.did]}".lstrip() if asked.did in DONE else ""
    return await _shown(request, visitor, told=told)


async def _shown(
    request: ApiRequest,
    visitor: Visit,
    *,
    told: str = "",
    secret: str = "",
    rotated: Membership | None = None,
) -> ASGIApp:
    return page(
        request,
        visitor,
        "fleet.html",
        part=await _part(request, visitor),
        told=told,
        secret=secret,
        rotated=rotated,
        base=address_of(request),
        enrols=visitor.caller.role in ROLES_BY_VERB["enroll"],
    )


@get("/live/fleet")
async def live_fleet(request: ApiRequest) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    return stream(request, visitor.caller, ("fleet", visitor.csrf), lambda: _part(request, visitor))


@post("/fleet/enroll")
async def invite(request: ApiRequest) -> ASGIApp:
    """Make a one-time secret, and show the command to paste on the new machine."""
    visitor, _ = await sent(request, Sent)
    made = await request.coordinator.enrolment.invite(visitor.caller, visitor.caller.products)
    return await _shown(request, visitor, secret=made.secret)


@post("/fleet/enrollments/{enrollment_id:str}/withdraw")
async def withdraw(request: ApiRequest) -> ASGIApp:
    """Take an invitation back before a machine has joined by it."""
    visitor, _ = await sent(request, Sent)
    enrollment_id = request.path_name("enrollment_id", "enrollment")
    await request.coordinator.enrolment.withdraw(visitor.caller, enrollment_id)
    return see_other("/fleet?did=withdraw")


@post("/fleet/{factory_id:str}/{verb:str}")
async def change(request: ApiRequest) -> ASGIApp:
    """Drain a factory, let it go on, end its token, or take it out of the fleet."""
    visitor, _ = await sent(request, Sent)
    factory_id, verb = (
        request.path_name("factory_id", "factory"),
        request.path_name("verb", "action"),
    )
    coordinator, caller = request.coordinator, visitor.caller
    match verb:
        case "drain" | "resume":
            await coordinator.factories.drain(caller, factory_id, draining=verb == "drain")
        case "revoke":
            await coordinator.enrolment.revoke(caller, factory_id)
        case "deregister":
            await coordinator.enrolment.deregister(caller, factory_id)
        case "rotate":
            # The token is in no address and in no store: it is shown here, or never.
            made = await coordinator.enrolment.rotate(caller, factory_id)
            return await _shown(request, visitor, rotated=made)
        case _:
            raise NotFound("action", verb)
    return see_other(f"/fleet?{urlencode({'did': verb, 'to': factory_id})}")


class Halting(Sent, frozen=True, kw_only=True):
    """The kill switch, and why it is turned."""

    reason: Annotated[str, Meta(max_length=1000)] = ""
    product: Annotated[str, Meta(max_length=200)] = FLEET
    """What the button is for, whatever is chosen by now in another tab."""
    back: Back = "/fleet"


@post("/halt")
async def halt(request: ApiRequest) -> ASGIApp:
    """Stop all grants: of a product, or of everything."""
    return await _turned(request, halted=True)


@post("/resume")
async def resume(request: ApiRequest) -> ASGIApp:
    """Let grants go on."""
    return await _turned(request, halted=False)


async def _turned(request: ApiRequest, *, halted: bool) -> ASGIApp:
    visitor, form = await sent(request, Halting)
    caller = visitor.caller
    switches = request.coordinator.halt_switches
    product = None if form.product == FLEET else form.product
    await switches.set_halted(caller, product, halted=halted, reason=form.reason)
    return see_other(form.back)


ROUTES = (fleet_page, live_fleet, invite, withdraw, change, halt, resume)
