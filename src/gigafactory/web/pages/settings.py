"""Settings page: halt switch, products, dispatch modes, tokens, profiles, notifications."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, ValidationError, convert, to_builtins

from gigafactory.api.http.decoding import parse_fault
from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.manifest.names import slug
from gigafactory.domain.manifest.units import format_duration
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller, Role, Token
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.domain.tenancy.product import Product
from gigafactory.web.pages.profile import resolve_product
from gigafactory.web.site.rendering import render_page, see_other
from gigafactory.web.site.session import WebForm, WebSession, read_form, require_session
from gigafactory.wire.admin import Person
from gigafactory.wire.products import ProductDoc


async def _render_settings(request: ApiRequest, session: WebSession, secret: str = "") -> ASGIApp:
    coordinator, caller = request.coordinator, session.caller
    notifier = coordinator.notifier
    profile_product = resolve_product(session)
    return render_page(
        request,
        session,
        "settings.html",
        products=await _products(request, session),
        new_product=Product(id=""),
        can_set=caller.role in ROLES_BY_VERB["products"],
        format_waits=_format_waits,
        format_weights=_format_weights,
        dispatch=await coordinator.dispatch_control.show(caller),
        modes=tuple(DispatchMode),
        can_dispatch=caller.role in ROLES_BY_VERB["dispatch"],
        switches=[each for each in await coordinator.halt_switches.all(caller) if each.halted],
        halt_target=caller.product or FLEET,
        can_halt=caller.role in ROLES_BY_VERB["halt"],
        profiles=await coordinator.profiles.all(profile_product),
        profile_product=profile_product,
        can_save=caller.role in ROLES_BY_VERB["profiles"],
        tokens=await _tokens(request, caller),
        channels=[c for c in notifier.channels if caller.covers_all(c.products)]
        if notifier
        else (),
        roles=tuple(Role),
        can_manage_tokens=caller.role in ROLES_BY_VERB["tokens"],
        secret=secret,
        now=coordinator.clock.now(),
    )


async def _products(request: ApiRequest, session: WebSession) -> Sequence[Product]:
    """Return all products, with defaults for those that are not set up."""
    products_by_id = {
        each.id: each for each in await request.coordinator.products.all(session.caller)
    }
    ids = sorted({*products_by_id, *session.products})
    return [products_by_id.get(each, Product(id=each)) for each in ids]


async def _tokens(request: ApiRequest, caller: Caller) -> Sequence[Token]:
    if caller.role not in ROLES_BY_VERB["tokens"]:
        return ()
    now = request.coordinator.clock.now()
    return [token for token in await request.coordinator.tokens.all(caller) if token.is_valid(now)]


def _format_waits(product: Product) -> str:
    """Format target waits for the form, one per line."""
    waits = product.target_wait.items()
    return "\n".join(f"{priority} {format_duration(wait)}" for priority, wait in waits)


def _format_weights(product: Product) -> str:
    """Format weights for the form, one per line, by their API names."""
    return "\n".join(f"{name} {value}" for name, value in to_builtins(product.weights).items())


@get("/settings")
async def settings_page(request: ApiRequest) -> ASGIApp:
    """Show the settings."""
    return await _render_settings(request, await require_session(request))


class TokenForm(WebForm, frozen=True, kw_only=True):
    """The user and role of a new token."""

    user: Person
    role: Role = Role.VIEWER


@post("/settings/tokens")
async def issue_token(request: ApiRequest) -> ASGIApp:
    """Create a token for a user and show its secret once."""
    session, form = await read_form(request, TokenForm)
    caller = session.caller
    token = await request.coordinator.tokens.issue(caller, form.user, form.role, caller.products)
    return await _render_settings(request, session, token.secret)


class DispatchForm(WebForm, frozen=True, kw_only=True):
    """The dispatch mode of a product."""

    product: Annotated[str, Meta(max_length=200)]
    mode: DispatchMode
    force: bool = False


@post("/settings/dispatch")
async def set_dispatch_mode(request: ApiRequest) -> ASGIApp:
    """Set the dispatch mode of a product."""
    session, form = await read_form(request, DispatchForm)
    control = request.coordinator.dispatch_control
    await control.set_mode(session.caller, _product_id(form.product), form.mode, force=form.force)
    return see_other("/settings#dispatch")


class RevokeTokenForm(WebForm, frozen=True, kw_only=True):
    """The id of the token to revoke."""

    token: Annotated[str, Meta(max_length=100)]


@post("/settings/tokens/revoke")
async def revoke_token(request: ApiRequest) -> ASGIApp:
    """Revoke a token and all sessions that started from it."""
    session, form = await read_form(request, RevokeTokenForm)
    await request.coordinator.tokens.revoke(session.caller, form.token)
    return see_other("/settings")


class ProductForm(WebForm, frozen=True, kw_only=True):
    """The settings of a product."""

    product: Annotated[str, Meta(max_length=200)]
    share: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    repos: Annotated[str, Meta(max_length=100_000)] = ""
    paths: Annotated[str, Meta(max_length=100_000)] = ""
    waits: Annotated[str, Meta(max_length=10_000)] | None = None
    weights: Annotated[str, Meta(max_length=10_000)] | None = None

    def read(self, before: Product) -> Product:
        """Return the product with the form's settings; absent fields keep their values.

        Raises Invalid.
        """
        fields: dict[str, object] = {
            "repos": self.repos.replace(",", " ").split(),
            "share": self.share,
            "protectedPaths": list(filter(None, map(str.strip, self.paths.splitlines()))),
            "targetWait": _parse_pairs(_format_waits(before) if self.waits is None else self.waits),
            "weights": _parse_pairs(
                _format_weights(before) if self.weights is None else self.weights
            ),
        }
        try:
            document = convert(fields, ProductDoc, strict=False)
        except ValidationError as error:
            raise Invalid("the product", [parse_fault(str(error))]) from None
        return document.to_domain(before.id)


def _parse_pairs(text: str) -> dict[str, str]:
    """Parse names and values, one pair per line."""
    lines = (line.replace("=", " ").split(maxsplit=1) for line in text.splitlines())
    return {name: " ".join(rest).strip() for name, *rest in filter(None, lines)}


@post("/settings/products")
async def set_product(request: ApiRequest) -> ASGIApp:
    """Save a product; settings that are not on the form keep their values."""
    session, form = await read_form(request, ProductForm)
    products = request.coordinator.products
    before = await products.get(session.caller, _product_id(form.product))
    await products.put(session.caller, form.read(before))
    return see_other("/settings")


def _product_id(product: str) -> str:
    """Validate the product of a form.

    Raises Invalid.
    """
    try:
        return slug(product)
    except ValueError as expected:
        wrong = Fault("product", f"found {product[:60]!r}; expected {expected}")
        raise Invalid("the product", [wrong]) from None


ROUTES = (settings_page, set_product, set_dispatch_mode, issue_token, revoke_token)
