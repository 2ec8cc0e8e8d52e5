"""A visit: who looks at a page, and whether what a form sends comes from a page of ours."""

import hashlib
import hmac
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import Headers
from gigafactory.coordinator.access.logins import SESSION_LASTS
from gigafactory.domain.errors import Forbidden, Unauthenticated
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.tenancy.access import Caller, TokenKind

SESSION = "gf_session"
PRODUCT = "gf_product"
"""The product that the visitor has chosen; none for all."""
FORM_BYTES_MAX = 2 << 20
CSRF_HEADER = b"x-csrf"
"""Where the mark is, when the content is a file."""
ELSEWHERE = frozenset({b"cross-site", b"same-site"})

Form = TypeVar("Form", bound="Sent")
Back = Literal["/", "/fleet", "/settings", "/budget"]
"""The page that a form was on, where it was on one of several."""


class Visit(msgspec.Struct, frozen=True):
    """Somebody who is signed in."""

    caller: Caller
    csrf: str
    """What every form of theirs carries: only our own pages know it."""
    products: tuple[str, ...] = ()
    """Those that they can choose from, by name."""


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every form sends."""

    csrf: str = ""


def cookie(request: ApiRequest, name: str) -> str | None:
    """One cookie; None when there is none, or an empty one."""
    return request.cookies.get(name) or None


async def visit(request: ApiRequest) -> Visit:
    """Whoever looks at the page.

    Raises Unauthenticated, TooManyRequests.
    """
    secret = cookie(request, SESSION)
    if secret is None:
        raise Unauthenticated("sign in to see this page")
    caller = await request.authn.authenticate(secret, None, None, request.address)
    if caller.token is None or caller.token.for_ is not TokenKind.LOGIN:
        # Other tokens are for programs: a cookie goes along where nobody has sent it.
        raise Unauthenticated("a browser signs in first; its own cookie opens these pages")
    index = request.coordinator.index
    known = {*index.queue_versions, *index.fleet.product_ids} - {FLEET}
    # A product that somebody may not see any more is not chosen any more.
    if (wanted := cookie(request, PRODUCT)) is not None and caller.can_see(wanted):
        caller = replace(caller, product=wanted)
        known.add(wanted)
    return Visit(caller, csrf_of(secret), tuple(sorted(filter(caller.can_see, known))))


async def sent(request: ApiRequest, of: type[Form]) -> tuple[Visit, Form]:
    """What a form of one of our pages sends, and by whom.

    Raises Forbidden for a form that comes from elsewhere; Unauthenticated, Invalid, TooLarge.
    """
    require_our_own(request)
    visitor = await visit(request)
    form = decode_query(await request.read_body(FORM_BYTES_MAX), of)
    _require_mark(form.csrf.encode(), visitor)
    return visitor, form


async def sending(request: ApiRequest) -> Visit:
    """Whoever sends bytes from one of our pages, none of which are read yet.

    Raises Forbidden for what comes from elsewhere; Unauthenticated.
    """
    require_our_own(request)
    visitor = await visit(request)
    _require_mark(request.header(CSRF_HEADER) or b"", visitor)
    return visitor


def _require_mark(given: bytes, visitor: Visit) -> None:
    if not hmac.compare_digest(given, visitor.csrf.encode()):
        raise Forbidden("this form is not from your own page, or too old; load the page again")


def require_our_own(request: ApiRequest) -> None:
    """Refuse what a page of another site sends.

    Raises Forbidden.
    """
    origin, host = request.header(b"origin"), request.header(b"host") or b""
    there = urlsplit(origin.decode("latin-1")).netloc if origin is not None else None
    if (there is not None and there.encode("latin-1") != host) or (
        request.header(b"sec-fetch-site") in ELSEWHERE
    ):
        raise Forbidden("this comes from a page of another site; nothing was done")


def csrf_of(secret: str) -> str:
    """What the forms of one browser carry; it tells nothing of the secret."""
    return hmac.new(secret.encode(), b"forms", hashlib.sha256).hexdigest()


def signed_in(request: ApiRequest, secret: str) -> Headers:
    """The header by which a browser stays signed in."""
    return (_set(request, SESSION, secret, int(SESSION_LASTS.total_seconds())),)


def signed_out(request: ApiRequest) -> Headers:
    """The headers by which a browser forgets everything."""
    return (_set(request, SESSION, "", 0), _set(request, PRODUCT, "", 0))


def chosen(request: ApiRequest, product: str) -> Headers:
    """The header by which a browser remembers the product; an empty one is all of them."""
    lasts_s = int(SESSION_LASTS.total_seconds()) if product else 0
    return (_set(request, PRODUCT, product, lasts_s),)


def _set(request: ApiRequest, name: str, value: str, lasts_s: int) -> tuple[bytes, bytes]:
    # Values are hexadecimal digits, letters and dashes: nothing in them needs quotes.
    # A header that anybody can send can only make the cookie stricter.
    proxied = request.header(b"x-forwarded-proto") == b"https"
    secure = "; Secure" if proxied or request.scope["scheme"] == "https" else ""
    made = f"{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}"
    return (b"set-cookie", made.encode("latin-1"))


def address_of(request: ApiRequest) -> str:
    """Where this coordinator is reached, as the browser reached it."""
    address = str(request.base_url).rstrip("/")
    if request.header(b"x-forwarded-proto") == b"https":
        return address.replace("http://", "https://", 1)
    return address
