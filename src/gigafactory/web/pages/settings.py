"""The page of settings: halt switch, products, dispatch, tokens, profiles, who hears of what."""

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
from gigafactory.web.pages.profile import product_of
from gigafactory.web.site.rendering import page, see_other
from gigafactory.web.site.session import Sent, Visit, sent, visit
from gigafactory.wire.admin import Person
from gigafactory.wire.products import ProductDoc


async def _shown(request: ApiRequest, visitor: Visit, secret: str = "") -> ASGIApp:
    coordinator, caller = request.coordinator, visitor.caller
    notifier = coordinator.notifier
    of = product_of(visitor)
    return page(
        request,
        visitor,
        "settings.html",
        products=await _products(request, visitor),
        another=Product(id=""),
        sets=caller.role in ROLES_BY_VERB["products"],
        waits_of=_waits,
        weights_of=_weights,
        ways=await coordinator.dispatch_control.show(caller),
        modes=tuple(DispatchMode),
        turns=caller.role in ROLES_BY_VERB["dispatch"],
        switches=[each for each in await coordinator.halt_switches.all(caller) if each.halted],
        stops=caller.product or FLEET,
        halts=caller.role in ROLES_BY_VERB["halt"],
        profiles=await coordinator.profiles.all(of),
        of=of,
        saves=caller.role in ROLES_BY_VERB["profiles"],
        tokens=await _tokens(request, caller),
        channels=notifier.channels if notifier else (),
        roles=tuple(Role),
        manages=caller.role in ROLES_BY_VERB["tokens"],
        secret=secret,
        now=coordinator.clock.now(),
    )


async def _products(request: ApiRequest, visitor: Visit) -> Sequence[Product]:
    """Every product that there is, those too that nobody has set up."""
    known = {each.id: each for each in await request.coordinator.products.all(visitor.caller)}
    ids = sorted({*known, *visitor.products})
    return [known.get(each, Product(id=each)) for each in ids]


async def _tokens(request: ApiRequest, caller: Caller) -> Sequence[Token]:
    if caller.role not in ROLES_BY_VERB["tokens"]:
        return ()
    now = request.coordinator.clock.now()
    return [token for token in await request.coordinator.tokens.all(caller) if token.is_valid(now)]


def _waits(product: Product) -> str:
    """The target waits as the form has them: one a line."""
    waits = product.target_wait.items()
    return "\n".join(f"{priority} {format_duration(wait)}" for priority, wait in waits)


def _weights(product: Product) -> str:
    """The weights as the form has them: one a line, by the names that the API gives them."""
    return "\n".join(f"{name} {value}" for name, value in to_builtins(product.weights).items())


@get("/settings")
async def settings_page(request: ApiRequest) -> ASGIApp:
    """Show how the fleet is set up."""
    return await _shown(request, await visit(request))


class Wanted(Sent, frozen=True, kw_only=True):
    """Whose token, with which role."""

    user: Person
    role: Role = Role.VIEWER


@post("/settings/tokens")
async def make_token(request: ApiRequest) -> ASGIApp:
    """Make a token for a person, and show its secret this once."""
    visitor, form = await sent(request, Wanted)
    caller = visitor.caller
    made = await request.coordinator.tokens.issue(caller, form.user, form.role, caller.products)
    return await _shown(request, visitor, made.secret)


class Turned(Sent, frozen=True, kw_only=True):
    """How whose jobs reach factories."""

    product: Annotated[str, Meta(max_length=200)]
    mode: DispatchMode
    force: bool = False


@post("/settings/dispatch")
async def set_way(request: ApiRequest) -> ASGIApp:
    """Set how a product's jobs reach factories."""
    visitor, form = await sent(request, Turned)
    dispatching = request.coordinator.dispatch_control
    await dispatching.set_mode(visitor.caller, _named(form.product), form.mode, force=form.force)
    return see_other("/settings#dispatch")


class Ended(Sent, frozen=True, kw_only=True):
    """Which one."""

    token: Annotated[str, Meta(max_length=100)]


@post("/settings/tokens/revoke")
async def end_token(request: ApiRequest) -> ASGIApp:
    """End a token, and whatever signed in with it."""
    visitor, form = await sent(request, Ended)
    await request.coordinator.tokens.revoke(visitor.caller, form.token)
    return see_other("/settings")


class ProductForm(Sent, frozen=True, kw_only=True):
    """How a product is set up."""

    product: Annotated[str, Meta(max_length=200)]
    share: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    repos: Annotated[str, Meta(max_length=100_000)] = ""
    paths: Annotated[str, Meta(max_length=100_000)] = ""
    waits: Annotated[str, Meta(max_length=10_000)] | None = None
    weights: Annotated[str, Meta(max_length=10_000)] | None = None

    def read(self, before: Product) -> Product:
        """The product as the form wants it; what the form did not have stays as it was.

        Raises Invalid.
        """
        given: dict[str, object] = {
            "repos": self.repos.replace(",", " ").split(),
            "share": self.share,
            "protectedPaths": list(filter(None, map(str.strip, self.paths.splitlines()))),
            "targetWait": _pairs(_waits(before) if self.waits is None else self.waits),
            "weights": _pairs(_weights(before) if self.weights is None else self.weights),
        }
        try:
            document = convert(given, ProductDoc, strict=False)
        except ValidationError as wrong:
            raise Invalid("the product", [parse_fault(str(wrong))]) from None
        return document.read(before.id)


def _pairs(text: str) -> dict[str, str]:
    """Names and values, one pair a line."""
    lines = (line.replace("=", " ").split(maxsplit=1) for line in text.splitlines())
    return {name: " ".join(rest).strip() for name, *rest in filter(None, lines)}


@post("/settings/products")
async def set_product(request: ApiRequest) -> ASGIApp:
    """Set a product up; what is not on the form stays as it was."""
    visitor, form = await sent(request, ProductForm)
    products = request.coordinator.products
    before = await products.get(visitor.caller, _named(form.product))
    await products.put(visitor.caller, form.read(before))
    return see_other("/settings")


def _named(product: str) -> str:
    """The product of a form.

    Raises Invalid.
    """
    try:
        return slug(product)
    except ValueError as expected:
        wrong = Fault("product", f"found {product[:60]!r}; expected {expected}")
        raise Invalid("the product", [wrong]) from None


ROUTES = (settings_page, set_product, set_way, make_token, end_token)
