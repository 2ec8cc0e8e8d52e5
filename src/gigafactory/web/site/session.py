"""Web sessions: authenticate browsers by cookie, protect forms against cross-site requests."""

import hashlib
import hmac
from functools import partial
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import Headers
from gigafactory.coordinator.access.logins import SESSION_LASTS
from gigafactory.domain.errors import Forbidden, Unauthenticated
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.tenancy.access import Caller, TokenKind

SESSION_COOKIE = "gf_session"
PRODUCT_COOKIE = "gf_product"
"""Cookie with the chosen product; absent for all products."""
ENCRYPTED_PREFIX = "__Host-"
"""Browsers let only this very host set such cookies, and only encrypted."""
FORM_BYTES_MAX = 2 << 20
CSRF_HEADER = b"x-csrf"
"""Header with the CSRF token of an upload."""
FOREIGN_FETCH_SITES = frozenset({b"cross-site", b"same-site"})

Form = TypeVar("Form", bound="WebForm")
BackPage = Literal["/", "/fleet", "/settings", "/budget"]
"""The page to return to, for forms that are on several pages."""


class WebSession(msgspec.Struct, frozen=True):
    """A signed-in browser."""

    caller: Caller
    csrf: str
    """Token that every form of the session must carry."""
    products: tuple[str, ...] = ()
    """The products to choose from, by name."""


class WebForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of every form."""

    csrf: str = ""


def cookie_name(request: ApiRequest, name: str) -> str:
    """Return the name of a cookie on the connection of this request."""
    return f"{ENCRYPTED_PREFIX}{name}" if request.is_encrypted else name


def read_cookie(request: ApiRequest, name: str) -> str | None:
    """Return a cookie of the request; None if it is absent or empty, or there are several.

    Another server on a name below ours may have added one, and might come first.
    """
    wanted = f"{cookie_name(request, name)}=".encode()
    values = [
        part.strip()[len(wanted) :].decode("latin-1")
        for key, value in request.scope["headers"]
        if key == b"cookie"
        for part in value.split(b";")
        if part.strip().startswith(wanted)
    ]
    return values[0] or None if len(values) == 1 else None


async def require_session(request: ApiRequest) -> WebSession:
    """Return the session of the browser.

    Raises Unauthenticated, TooManyRequests.
    """
    secret = read_cookie(request, SESSION_COOKIE)
    if secret is None:
        raise Unauthenticated("sign in to see this page")
    caller = await request.authn.authenticate(secret, None, None, request.address)
    if caller.token is None or caller.token.for_ is not TokenKind.LOGIN:
        # Browsers send cookies on their own, so tokens made for programs are not accepted here.
        raise Unauthenticated(
            "this token is for programs; sign in to get a session for the browser"
        )
    request.mark_known()
    index = request.coordinator.index
    product_ids = {*index.queue_versions, *index.fleet.product_ids} - {FLEET}
    # Ignore a chosen product that the caller can no longer see.
    if (wanted := read_cookie(request, PRODUCT_COOKIE)) is not None and caller.can_see(wanted):
        caller = replace(caller, product=wanted)
        product_ids.add(wanted)
    return WebSession(
        caller, csrf_token(secret), tuple(sorted(filter(caller.can_see, product_ids)))
    )


async def read_form(request: ApiRequest, form_type: type[Form]) -> tuple[WebSession, Form]:
    """Return the session and the decoded form of a request.

    Raises Forbidden for a cross-site request; Unauthenticated, Invalid, TooLarge.
    """
    require_same_origin(request)
    session = await require_session(request)
    form = await request.parse_body(partial(decode_query, of=form_type), bytes_max=FORM_BYTES_MAX)
    _require_csrf(form.csrf.encode(), session)
    return session, form


async def require_upload_session(request: ApiRequest) -> WebSession:
    """Return the session of an upload, before its content is read.

    Raises Forbidden for a cross-site request; Unauthenticated.
    """
    require_same_origin(request)
    session = await require_session(request)
    _require_csrf(request.header(CSRF_HEADER) or b"", session)
    return session


def _require_csrf(given: bytes, session: WebSession) -> None:
    if not hmac.compare_digest(given, session.csrf.encode()):
        raise Forbidden(
            "the form is outdated or from another session; reload the page and try again"
        )


def require_same_origin(request: ApiRequest) -> None:
    """Refuse requests from pages of other sites.

    Raises Forbidden.
    """
    origin, host = request.header(b"origin"), request.header(b"host") or b""
    # Not parsed as a URL: a broken one would be an error.
    if (origin is not None and origin.partition(b"://")[2] != host) or (
        request.header(b"sec-fetch-site") in FOREIGN_FETCH_SITES
    ):
        raise Forbidden("refused a request from a page of another site; nothing was changed")


def csrf_token(secret: str) -> str:
    """Derive the CSRF token of a session; it does not reveal the secret."""
    return hmac.new(secret.encode(), b"forms", hashlib.sha256).hexdigest()


def session_cookie(request: ApiRequest, secret: str) -> Headers:
    """Return the header that signs a browser in."""
    return (_set_cookie(request, SESSION_COOKIE, secret, int(SESSION_LASTS.total_seconds())),)


def clear_cookies(request: ApiRequest) -> Headers:
    """Return the headers that delete all cookies."""
    return (
        _set_cookie(request, SESSION_COOKIE, "", 0),
        _set_cookie(request, PRODUCT_COOKIE, "", 0),
    )


def product_cookie(request: ApiRequest, product: str) -> Headers:
    """Return the header that stores the chosen product; an empty one chooses all products."""
    max_age_s = int(SESSION_LASTS.total_seconds()) if product else 0
    return (_set_cookie(request, PRODUCT_COOKIE, product, max_age_s),)


def _set_cookie(request: ApiRequest, name: str, value: str, max_age_s: int) -> tuple[bytes, bytes]:
    # Values are hexadecimal digits, letters and dashes, so they need no quoting.
    secure = "; Secure" if request.is_encrypted else ""
    named = cookie_name(request, name)
    cookie = f"{named}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}"
    return (b"set-cookie", cookie.encode("latin-1"))
