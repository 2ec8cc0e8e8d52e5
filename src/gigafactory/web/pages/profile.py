"""The page of a profile: read in any version, and saved as a new one."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct
from msgspec.structs import replace

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.manifest.profile import Profile, parse_profile_file
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.web.presenters.profile_text import profile_text
from gigafactory.web.site.rendering import GUARDED, HTML, page, rendered, see_other
from gigafactory.web.site.session import Sent, Visit, sent, visit

EXAMPLE = """---
name: careful-engineer
capabilities: [git]
---
Say who does the work, and how they go about it.
"""
VERSIONS_SHOWN = 20
Name = Annotated[str, Meta(max_length=200)]
TOLD = {"saved": "is saved.", "same": "has not changed, and stays the version that it is."}
"""What is said when somebody has saved it."""


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose profile, and which version; without it the newest."""

    product: Name = ""
    version: Annotated[int, Meta(ge=1, lt=10**9)] | None = None
    did: Literal["saved", "same", ""] = ""


class Written(Sent, frozen=True, kw_only=True):
    """A profile file as somebody has written it so far, and the product that it is for."""

    product: Name = ""
    text: Annotated[str, Meta(max_length=1 << 20)] = ""

    @property
    def data(self) -> bytes:
        """The file; browsers end the lines of a form as old printers did."""
        return self.text.replace("\r\n", "\n").encode()


class Opened(NamedTuple):
    """A profile that there is, and what is said of it."""

    profile: Profile
    versions: Sequence[int]
    """Of this name, newest first."""
    told: str


def product_of(visitor: Visit, asked: str = "") -> str:
    """The product whose profiles are meant: the one that was asked for, the chosen or only one.

    Raises NotFound.
    """
    product = asked or visitor.caller.product or _likely(visitor)
    if not visitor.caller.can_see(product):
        raise NotFound("product", product, "nothing of it is known here")
    return product


def _likely(visitor: Visit) -> str:
    caller, known = visitor.caller, visitor.products
    if len(known) != 1 and caller.can_see(DEFAULT_PRODUCT):
        return DEFAULT_PRODUCT
    return (*known, *caller.products)[0]


def _in(caller: Caller, product: str) -> Caller:
    return replace(caller, product=product)


@get("/settings/profiles")
async def new_profile(request: ApiRequest) -> ASGIApp:
    """Show an empty profile."""
    visitor = await visit(request)
    visitor.caller.require("profiles")
    product = product_of(visitor, request.query(Asked).product)
    return _shown(request, visitor, product, EXAMPLE)


@get("/settings/profiles/{name:str}")
async def profile_page(request: ApiRequest) -> ASGIApp:
    """Show a profile."""
    visitor = await visit(request)
    asked = request.query(Asked)
    product = product_of(visitor, asked.product)
    caller = _in(visitor.caller, product)
    name = request.path_name("name", "profile")
    found = await request.coordinator.profiles.get(caller, name, asked.version)
    newest = await request.coordinator.profiles.get(caller, name)
    opened = Opened(
        found,
        range(newest.version, max(0, newest.version - VERSIONS_SHOWN), -1),
        f"{name}@{found.version} {TOLD[asked.did]}" if asked.did else "",
    )
    return _shown(request, visitor, product, profile_text(found), opened)


def _shown(
    request: ApiRequest,
    visitor: Visit,
    product: str,
    text: str,
    opened: Opened | None = None,
    faults: Sequence[Fault] = (),
) -> ASGIApp:
    return page(
        request,
        visitor,
        "profile.html",
        status=422 if faults else 200,
        product=product,
        products=sorted({product, *visitor.products}),
        text=text,
        opened=opened,
        verdict=rendered("_profile_verdict.html", faults=faults, becomes=""),
        saves=visitor.caller.role in ROLES_BY_VERB["profiles"],
    )


@post("/settings/profile-check")
async def check(request: ApiRequest) -> ASGIApp:
    """Say what is wrong with it, line by line, or what it would become; nothing is stored."""
    visitor, form = await sent(request, Written)
    faults: Sequence[Fault] = ()
    becomes = ""
    try:
        profile = parse_profile_file(form.data)
        product = product_of(visitor, form.product)
        newest = await request.coordinator.profiles.find(product, profile.name)
        becomes = f"{profile.name}@{newest.version + 1 if newest else 1} of {product}"
    except Invalid as wrong:
        faults = wrong.faults
    html = rendered("_profile_verdict.html", faults=faults, becomes=becomes)
    return HttpResponse(200, html.encode(), media_type=HTML, headers=GUARDED)


@post("/settings/profiles")
async def save(request: ApiRequest) -> ASGIApp:
    """Save it as a new version, and show it; what is wrong is told beside what was written."""
    visitor, form = await sent(request, Written)
    profiles = request.coordinator.profiles
    product = product_of(visitor, form.product)
    visitor.caller.require("profiles")
    try:
        profile = parse_profile_file(form.data)
    except Invalid as wrong:
        return _shown(request, visitor, product, form.text, faults=wrong.faults)
    before = await profiles.find(product, profile.name)
    saved = await profiles.save(_in(visitor.caller, product), profile)
    did = "same" if before is not None and before.version == saved.version else "saved"
    asked = urlencode({"product": product, "did": did})
    return see_other(f"/settings/profiles/{saved.name}?{asked}")


ROUTES = (new_profile, profile_page, check, save)
