"""Sign in with the URL that `aq login` prints or with a token; sign out."""

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.http.errors import status_of
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import NO_CONTENT
from gigafactory.domain.errors import Forbidden, Unauthenticated
from gigafactory.web.site.rendering import render_page, see_other
from gigafactory.web.site.session import (
    WebForm,
    clear_cookies,
    read_form,
    require_same_origin,
    require_session,
    session_cookie,
)

LOGIN_BYTES_MAX = 16 * 1024
"""Nobody has to be known to send this form."""


class LoginForm(WebForm, frozen=True, kw_only=True):
    """A login code or a token."""

    code: str = ""
    token: str = ""
    ended: str = ""
    """Set if the browser was signed in before."""


@get("/login")
async def login_page(request: ApiRequest) -> ASGIApp:
    """Show the login form; a URL with a code needs one click only.

    Opening the page does not redeem the code, as link previews would use it up.
    """
    form = decode_query(request.scope["query_string"], LoginForm)
    return _render_login(request, code=form.code, ended=form.ended)


def _render_login(
    request: ApiRequest, *, code: str = "", error: str = "", ended: str = "", status: int = 200
) -> ASGIApp:
    login = {"code": code, "error": error, "ended": ended}
    return render_page(request, None, "login.html", status=status, login=login)


@post("/login")
async def sign_in(request: ApiRequest) -> ASGIApp:
    """Sign a browser in."""
    require_same_origin(request)
    form = decode_query(await request.read_unknown_body(LOGIN_BYTES_MAX), LoginForm)
    logins = request.coordinator.logins
    try:
        with request.authn.counting_failures(request.address):
            if form.code:
                token = await logins.sign_in_with_code(form.code)
            else:
                token = await logins.sign_in_with_token(form.token.strip())
    except (Unauthenticated, Forbidden) as refusal:
        return _render_login(request, error=refusal.detail, status=status_of(refusal))
    return see_other("/", session_cookie(request, token.secret))


@post("/logout")
async def sign_out(request: ApiRequest) -> ASGIApp:
    """Sign a browser out and invalidate its cookie."""
    session, _ = await read_form(request, WebForm)
    await request.coordinator.logins.sign_out(session.caller)
    return see_other("/login", clear_cookies(request))


@get("/live/whoami")
async def who_am_i(request: ApiRequest) -> ASGIApp:
    """Tell the page's script whether the browser is still signed in."""
    await require_session(request)
    return NO_CONTENT


ROUTES = (login_page, sign_in, sign_out, who_am_i)
