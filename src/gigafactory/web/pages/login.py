"""Signing in with the address that `aq` prints, or with a token; and signing out."""

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.http.errors import status_of
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import NO_CONTENT
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
async def login_page(request: ApiRequest) -> ASGIApp:
    """Ask for a token; an address that carries a code needs one click alone.

    A code is not used by looking: what previews links would use it up.
    """
    given = decode_query(request.scope["query_string"], Given)
    return _door(request, code=given.code, ended=given.ended)


def _door(
    request: ApiRequest, *, code: str = "", wrong: str = "", ended: str = "", status: int = 200
) -> ASGIApp:
    shown = {"code": code, "wrong": wrong, "ended": ended}
    return page(request, None, "login.html", status=status, door=shown)


@post("/login")
async def sign_in(request: ApiRequest) -> ASGIApp:
    """Sign a browser in."""
    require_our_own(request)
    given = decode_query(await request.read_body(FORM_BYTES_MAX), Given)
    logins = request.coordinator.logins
    try:
        async with request.authn.counting_failures(request.address):
            if given.code:
                made = await logins.sign_in_with_code(given.code)
            else:
                made = await logins.sign_in_with_token(given.token.strip())
    except (Unauthenticated, Forbidden) as refusal:
        wrong, status = refusal.detail, status_of(refusal)
        return _door(request, wrong=wrong, status=status)
    return see_other("/", signed_in(request, made.secret))


@post("/logout")
async def sign_out(request: ApiRequest) -> ASGIApp:
    """Sign a browser out: its cookie opens nothing any more, wherever it went."""
    visitor, _ = await sent(request, Sent)
    await request.coordinator.logins.sign_out(visitor.caller)
    return see_other("/login", signed_out(request))


@get("/live/whoami")
async def who_am_i(request: ApiRequest) -> ASGIApp:
    """Say to a script of the page whether somebody is still signed in."""
    await visit(request)
    return NO_CONTENT


ROUTES = (login_page, sign_in, sign_out, who_am_i)
