"""The page of settings: products, tokens, profiles, and which channels hear of what."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.call import Call
from gigafactory.api.tokens import Person
from gigafactory.domain.access import ALLOWED, Caller, Role, Token
from gigafactory.domain.product import DEFAULT
from gigafactory.web.rendering import page, see_other
from gigafactory.web.visit import Sent, Visit, sent, visit


async def _shown(request: Call, visitor: Visit, secret: str = "") -> ASGIApp:
    coordinator, caller = request.coordinator, visitor.caller
    notifier = coordinator.notifier
    return page(
        request,
        visitor,
        "settings.html",
        products=await coordinator.products.all(caller),
        profiles=await coordinator.profiles.all(caller.product or DEFAULT),
        tokens=await _tokens(request, caller),
        channels=notifier.channels if notifier else (),
        roles=tuple(Role),
        manages=caller.role in ALLOWED["tokens"],
        secret=secret,
        now=coordinator.clock.now(),
    )


async def _tokens(request: Call, caller: Caller) -> Sequence[Token]:
    if caller.role not in ALLOWED["tokens"]:
        return ()
    now = request.coordinator.clock.now()
    return [token for token in await request.coordinator.tokens.all(caller) if token.opens(now)]


@get("/settings")
async def settings_page(request: Call) -> ASGIApp:
    """Show how the fleet is set up."""
    return await _shown(request, await visit(request))


class Wanted(Sent, frozen=True, kw_only=True):
    """Whose token, with which role."""

    user: Person
    role: Role = Role.VIEWER


@post("/settings/tokens")
async def make_token(request: Call) -> ASGIApp:
    """Make a token for a person, and show its secret this once."""
    visitor, form = await sent(request, Wanted)
    caller = visitor.caller
    made = await request.coordinator.tokens.issue(caller, form.user, form.role, caller.products)
    return await _shown(request, visitor, made.secret)


class Ended(Sent, frozen=True, kw_only=True):
    """Which one."""

    token: Annotated[str, Meta(max_length=100)]


@post("/settings/tokens/revoke")
async def end_token(request: Call) -> ASGIApp:
    """End a token, and whatever signed in with it."""
    visitor, form = await sent(request, Ended)
    await request.coordinator.tokens.revoke(visitor.caller, form.token)
    return see_other("/settings")


ROUTES = (settings_page, make_token, end_token)
