"""Signing in with the address that `aq` prints, or with a token; and signing out."""

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.decoding import queried
from gigafactory.api.http.errors import status_of
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import NOTHING
from gigafactory.domain.errors import Forbidden, Unauthenticated
from gigafactory.web.site.rendering import page, see_other
from gigafactory.web.site.session import (
    FORM_BYTES_MAX,
    Sent,
    require_our_own,
    sent,
    signed_in,
    signed_out,
    visit,
)


class Given(Sent, frozen=True, kw_only=True):
    """A code from an address, or a token that somebody has."""

    code: str = ""
    token: str = ""
    ended: str = ""
    """Set for somebody who was signed in until now."""


@get("/login")
async def login_page(request: Call) -> ASGIApp:
    """Ask for a token; an address that carries a code needs one click alone.

    A code is not used by looking: what previews links would use it up.
    """
    given = queried(request.scope["query_string"], Given)
    return _door(request, code=given.code, ended=given.ended)


def _door(
    request: Call, *, code: str = "", wrong: str = "", ended: str = "", status: int = 200
) -> ASGIApp:
    shown = {"code": code, "wrong": wrong, "ended": ended}
    return page(request, None, "login.html", status=status, door=shown)


@post("/login")
async def sign_in(request: Call) -> ASGIApp:
    """Sign a browser in."""
    require_our_own(request)
    given = queried(await request.content(FORM_BYTES_MAX), Given)
    logins = request.coordinator.logins
    try:
        async with request.authn.guessing(request.address):
            if given.code:
                made = await logins.sign_in_with_code(given.code)
            else:
                made = await logins.sign_in_with_token(given.token.strip())
    except (Unauthenticated, Forbidden) as refusal:
        wrong, status = refusal.detail, status_of(refusal)
        return _door(request, wrong=wrong, status=status)
    return see_other("/", signed_in(request, made.secret))


@post("/logout")
async def sign_out(request: Call) -> ASGIApp:
    """Sign a browser out: its cookie opens nothing any more, wherever it went."""
    visitor, _ = await sent(request, Sent)
    await request.coordinator.logins.sign_out(visitor.caller)
    return see_other("/login", signed_out(request))


@get("/live/whoami")
async def who_am_i(request: Call) -> ASGIApp:
    """Say to a script of the page whether somebody is still signed in."""
    await visit(request)
    return NOTHING


ROUTES = (login_page, sign_in, sign_out, who_am_i)
