"""Fleet page: a card for each factory, invitations and the halt switch."""

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
from gigafactory.web.presenters.factory_cards import list_factory_cards
from gigafactory.web.site.live import Part, stream_part
from gigafactory.web.site.rendering import render, render_page, see_other
from gigafactory.web.site.session import (
    BackPage,
    WebForm,
    WebSession,
    read_form,
    require_session,
)
from gigafactory.wire.fleet import Membership

VERBS = ("drain", "deregister", "enroll", "halt")
CONFIRMATIONS = {
    "drain": "is draining: it finishes its running jobs, takes no new ones and then stops.",
    "resume": "takes jobs again. If it has stopped, start it with `aq factory run`.",
    "revoke": "gets no more jobs: its token is revoked. Its running jobs move to other factories.",
    "deregister": "is removed from the fleet.",
    "withdraw": "The invitation is withdrawn: its secret is no longer valid.",
}
"""Confirmation of each action; all but the last follow the name of the factory."""


async def _part(request: ApiRequest, session: WebSession) -> Part:
    coordinator, caller = request.coordinator, session.caller
    html = render(
        "_fleet.html",
        cards=await list_factory_cards(coordinator, caller),
        switches=[s for s in await coordinator.halt_switches.all(caller) if s.halted],
        halt_target=caller.product or FLEET,
        may={verb for verb in VERBS if caller.role in ROLES_BY_VERB[verb]},
        invitations=await _open_invitations(request, caller),
        csrf=session.csrf,
        now=coordinator.clock.now(),
    )
    return Part(html, "Fleet · Gigafactory", "/icon.svg")


async def _open_invitations(request: ApiRequest, caller: Caller) -> Sequence[Enrollment]:
    """Return unused, valid invitations; none for callers who cannot invite."""
    if caller.role not in ROLES_BY_VERB["enroll"]:
        return ()
    now = request.coordinator.clock.now()
    invitations = await request.coordinator.enrolment.invitations(caller)
    return [each for each in invitations if each.used_by is None and now < each.expires_at]


class FleetPageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The action to confirm on the page."""

    did: Annotated[str, Meta(max_length=20)] = ""
    to: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,200}$(?!\n)")] = ""


@get("/fleet")
async def fleet_page(request: ApiRequest) -> ASGIApp:
    """Show all factories."""
    session = await require_session(request)
    query = request.query(FleetPageQuery)
    message = (
        f"{query.to} {CONFIRMATIONS[query.did]}".lstrip() if query.did in CONFIRMATIONS else ""
    )
    return await _render_fleet(request, session, message=message)


async def _render_fleet(
    request: ApiRequest,
    session: WebSession,
    *,
    message: str = "",
    secret: str = "",
    rotated: Membership | None = None,
) -> ASGIApp:
    return render_page(
        request,
        session,
        "fleet.html",
        part=await _part(request, session),
        message=message,
        secret=secret,
        rotated=rotated,
        base=request.api_url,
        can_enrol=session.caller.role in ROLES_BY_VERB["enroll"],
    )


@get("/live/fleet")
async def live_fleet(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    return stream_part(
        request, session.caller, ("fleet", session.csrf), lambda: _part(request, session)
    )


@post("/fleet/enroll")
async def invite(request: ApiRequest) -> ASGIApp:
    """Create an invitation and show the command for the new machine."""
    session, _ = await read_form(request, WebForm)
    invitation = await request.coordinator.enrolment.invite(session.caller, session.caller.products)
    return await _render_fleet(request, session, secret=invitation.secret)


@post("/fleet/enrollments/{enrollment_id:str}/withdraw")
async def withdraw(request: ApiRequest) -> ASGIApp:
    """Withdraw an unused invitation."""
    session, _ = await read_form(request, WebForm)
    enrollment_id = request.path_name("enrollment_id", "enrollment")
    await request.coordinator.enrolment.withdraw(session.caller, enrollment_id)
    return see_other("/fleet?did=withdraw")


@post("/fleet/{factory_id:str}/{verb:str}")
async def change_factory(request: ApiRequest) -> ASGIApp:
    """Drain, resume, revoke, deregister or rotate the token of a factory."""
    session, _ = await read_form(request, WebForm)
    factory_id = request.path_name("factory_id", "factory")
    verb = request.path_name("verb", "action")
    coordinator, caller = request.coordinator, session.caller
    match verb:
        case "drain" | "resume":
            await coordinator.factories.drain(caller, factory_id, draining=verb == "drain")
        case "revoke":
            await coordinator.enrolment.revoke(caller, factory_id)
        case "deregister":
            await coordinator.enrolment.deregister(caller, factory_id)
        case "rotate":
            # The token is not stored and must not be in a URL: show it here, once.
            rotated = await coordinator.enrolment.rotate(caller, factory_id)
            return await _render_fleet(request, session, rotated=rotated)
        case _:
            raise NotFound("action", verb)
    return see_other(f"/fleet?{urlencode({'did': verb, 'to': factory_id})}")


class HaltForm(WebForm, frozen=True, kw_only=True):
    """The product to halt or resume, and the reason."""

    reason: Annotated[str, Meta(max_length=1000)] = ""
    product: Annotated[str, Meta(max_length=200)] = FLEET
    """Sent with the button, as another tab may have chosen another product since."""
    back: BackPage = "/fleet"


@post("/halt")
async def halt(request: ApiRequest) -> ASGIApp:
    """Halt a product or the whole fleet."""
    return await _set_halted(request, halted=True)


@post("/resume")
async def resume(request: ApiRequest) -> ASGIApp:
    """End a halt."""
    return await _set_halted(request, halted=False)


async def _set_halted(request: ApiRequest, *, halted: bool) -> ASGIApp:
    session, form = await read_form(request, HaltForm)
    caller = session.caller
    switches = request.coordinator.halt_switches
    product = None if form.product == FLEET else form.product
    await switches.set_halted(caller, product, halted=halted, reason=form.reason)
    return see_other(form.back)


ROUTES = (fleet_page, live_fleet, invite, withdraw, change_factory, halt, resume)
