"""Profile page: show any version, save a new one."""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct
from msgspec.structs import replace

from gigafactory.api.http.request import ApiRequest, parse_aside
from gigafactory.api.http.response import HttpResponse
from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.manifest.profile import Profile, parse_profile_file
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, ROLES_BY_VERB, Caller
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.web.presenters.profile_text import format_profile_file
from gigafactory.web.site.rendering import HTML, SECURITY_HEADERS, render, render_page, see_other
from gigafactory.web.site.session import WebForm, WebSession, read_form, require_session

EXAMPLE = """---
name: careful-engineer
capabilities: [git]
---
Describe the role and the working style of the agent.
"""
VERSIONS_SHOWN = 20
Name = Annotated[str, Meta(max_length=200)]
CONFIRMATIONS = {"saved": "is saved.", "same": "is unchanged, so no new version was saved."}
"""Confirmation after saving."""


class ProfilePageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The product and the version of a profile; the latest version by default."""

    product: Name = ""
    version: Annotated[int, Meta(ge=1, lt=10**9)] | None = None
    did: Literal["saved", "same", ""] = ""


class ProfileFileForm(WebForm, frozen=True, kw_only=True):
    """The text of a profile file and its product."""

    product: Name = ""
    text: Annotated[str, Meta(max_length=1 << 20)] = ""

    @property
    def data(self) -> bytes:
        """The file with LF line ends; browsers send CRLF."""
        return self.text.replace("\r\n", "\n").encode()


class ProfileVersions(NamedTuple):
    """A stored profile, its versions and a confirmation."""

    profile: Profile
    versions: Sequence[int]
    """Newest first."""
    message: str


def resolve_product(session: WebSession, product: str = "") -> str:
    """Return the product of the request: the given, the chosen, the only or the default one.

    Raises NotFound.
    """
    product = product or session.caller.product or _default_product(session)
    if not session.caller.can_see(product):
        raise NotFound("product", product, "no visible job or factory belongs to it")
    return product


def _default_product(session: WebSession) -> str:
    caller, known = session.caller, session.products
    if len(known) != 1 and caller.can_see(DEFAULT_PRODUCT):
        return DEFAULT_PRODUCT
    return (*known, *caller.products)[0]


def _for_product(caller: Caller, product: str) -> Caller:
    return replace(caller, product=product)


@get("/settings/profiles")
async def new_profile(request: ApiRequest) -> ASGIApp:
    """Show the form with an example."""
    session = await require_session(request)
    session.caller.require("profiles", OWN_PRODUCTS)
    product = resolve_product(session, request.query(ProfilePageQuery).product)
    return _render_profile(request, session, product, EXAMPLE)


@get("/settings/profiles/{name:str}")
async def profile_page(request: ApiRequest) -> ASGIApp:
    """Show a version of a profile."""
    session = await require_session(request)
    query = request.query(ProfilePageQuery)
    product = resolve_product(session, query.product)
    caller = _for_product(session.caller, product)
    name = request.path_name("name", "profile")
    profile = await request.coordinator.profiles.get(caller, name, query.version)
    newest = await request.coordinator.profiles.get(caller, name)
    opened = ProfileVersions(
        profile,
        range(newest.version, max(0, newest.version - VERSIONS_SHOWN), -1),
        f"{name}@{profile.version} {CONFIRMATIONS[query.did]}" if query.did else "",
    )
    return _render_profile(request, session, product, format_profile_file(profile), opened)


def _render_profile(
    request: ApiRequest,
    session: WebSession,
    product: str,
    text: str,
    opened: ProfileVersions | None = None,
    faults: Sequence[Fault] = (),
) -> ASGIApp:
    return render_page(
        request,
        session,
        "profile.html",
        status=422 if faults else 200,
        product=product,
        products=sorted({product, *session.products}),
        text=text,
        opened=opened,
        verdict=render("_profile_verdict.html", faults=faults, becomes=""),
        can_save=session.caller.role in ROLES_BY_VERB["profiles"],
    )


@post("/settings/profile-check")
async def check(request: ApiRequest) -> ASGIApp:
    """Validate the profile file and name the version it would become; store nothing."""
    session, form = await read_form(request, ProfileFileForm)
    faults: Sequence[Fault] = ()
    becomes = ""
    try:
        profile = await parse_aside(parse_profile_file, form.data)
        product = resolve_product(session, form.product)
        newest = await request.coordinator.profiles.find(product, profile.name)
        becomes = f"{profile.name}@{newest.version + 1 if newest else 1} of {product}"
    except Invalid as wrong:
        faults = wrong.faults
    html = render("_profile_verdict.html", faults=faults, becomes=becomes)
    return HttpResponse(200, html.encode(), media_type=HTML, headers=SECURITY_HEADERS)


@post("/settings/profiles")
async def save(request: ApiRequest) -> ASGIApp:
    """Save a new version and redirect to it; show faults next to the text."""
    session, form = await read_form(request, ProfileFileForm)
    profiles = request.coordinator.profiles
    product = resolve_product(session, form.product)
    session.caller.require("profiles", OWN_PRODUCTS)
    try:
        profile = await parse_aside(parse_profile_file, form.data)
    except Invalid as wrong:
        return _render_profile(request, session, product, form.text, faults=wrong.faults)
    before = await profiles.find(product, profile.name)
    saved = await profiles.save(_for_product(session.caller, product), profile)
    outcome = "same" if before is not None and before.version == saved.version else "saved"
    parameters = urlencode({"product": product, "did": outcome})
    return see_other(f"/settings/profiles/{saved.name}?{parameters}")


ROUTES = (new_profile, profile_page, check, save)
