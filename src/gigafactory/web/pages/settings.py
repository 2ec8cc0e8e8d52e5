"""The page of settings: the halt switch, products, tokens, profiles, and who hears of what."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta
from msgspec.structs import replace

from gigafactory.api.call import Call
from gigafactory.api.products import ProductDoc
from gigafactory.api.tokens import Person
from gigafactory.domain.access import ALLOWED, Caller, Role, Token
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.names import slug
from gigafactory.domain.product import FLEET, Product
from gigafactory.web.pages.profile import product_of
from gigafactory.web.rendering import page, see_other
from gigafactory.web.visit import Sent, Visit, sent, visit


async def _shown(request: Call, visitor: Visit, secret: str = "") -> ASGIApp:
    coordinator, caller = request.coordinator, visitor.caller
    notifier = coordinator.notifier
    of = product_of(visitor)
    return page(
        request,
        visitor,
        "settings.html",
        products=await _products(request, visitor),
        sets=caller.role in ALLOWED["products"],
        switches=[each for each in await coordinator.switches.all(caller) if each.halted],
        stops=caller.product or FLEET,
        halts=caller.role in ALLOWED["halt"],
        profiles=await coordinator.profiles.all(of),
        of=of,
        saves=caller.role in ALLOWED["profiles"],
        tokens=await _tokens(request, caller),
        channels=notifier.channels if notifier else (),
        roles=tuple(Role),
        manages=caller.role in ALLOWED["tokens"],
        secret=secret,
        now=coordinator.clock.now(),
    )


async def _products(request: Call, visitor: Visit) -> Sequence[Product]:
    """Every product that there is, those too that nobody has set up."""
    known = {each.id: each for each in await request.coordinator.products.all(visitor.caller)}
    ids = sorted({*known, *visitor.products})
    return [known.get(each, Product(id=each)) for each in ids]


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


class ProductForm(Sent, frozen=True, kw_only=True):
    """How a product is set up."""

    product: Annotated[str, Meta(max_length=200)]
    share: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    repos: Annotated[str, Meta(max_length=100_000)] = ""
    paths: Annotated[str, Meta(max_length=100_000)] = ""


@post("/settings/products")
async def set_product(request: Call) -> ASGIApp:
    """Set a product up; what is not on the form stays as it was."""
    visitor, form = await sent(request, ProductForm)
    products = request.coordinator.products
    try:
        product_id = slug(form.product)
    except ValueError as expected:
        fault = Fault("product", f"found {form.product[:60]!r}; expected {expected}")
        raise Invalid("the product", [fault]) from None
    before = await products.get(visitor.caller, product_id)
    asked = ProductDoc(
        repos=tuple(form.repos.replace(",", " ").split()),
        share=form.share,
        protected_paths=tuple(filter(None, map(str.strip, form.paths.splitlines()))),
    ).read(product_id)
    kept = replace(asked, weights=before.weights, target_wait=before.target_wait)
    await products.put(visitor.caller, kept)
    return see_other("/settings")


ROUTES = (settings_page, set_product, make_token, end_token)
