"""Products: which repos they own, their share of the fleet, their settings."""

from collections.abc import Callable, Iterator
from typing import Annotated

from litestar import get, put
from litestar.types import ASGIApp
from msgspec import Meta, field

from gigafactory.api.http.decoding import Line, Word
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render import fleet as views
from gigafactory.api.render.jobs import View
from gigafactory.api.workers.reports import Sent
from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.names import glob, reference, slug
from gigafactory.domain.manifest.units import parse_duration
from gigafactory.domain.tenancy.product import Product, Weights

TAG = "Products"
PRODUCT = {
    "id": "notes",
    "repos": ["notes"],
    "share": 1.0,
    "weights": {"capabilityFit": 1.0, "affinity": 0.5},
    "protectedPaths": [".github/**"],
    "targetWait": {"critical": "5m"},
}

Weight = Annotated[float, Meta(ge=0, le=1000)]


class WeightsDoc(Sent, frozen=True, kw_only=True):
    """How much each term of the score counts."""

    capability_fit: Weight = 1.0
    affinity: Weight = 0.5
    load: Weight = 1.0
    cost_fit: Weight = 0.75
    health: Weight = 1.0
    starvation: Weight = 1.5
    scarcity: Weight = 0.5
    learned: Weight = 0.0

    def read(self) -> Weights:
        """The record of it."""
        return Weights(
            capability_fit=self.capability_fit,
            affinity=self.affinity,
            load=self.load,
            cost_fit=self.cost_fit,
            health=self.health,
            starvation=self.starvation,
            scarcity=self.scarcity,
            learned=self.learned,
        )


class ProductDoc(Sent, frozen=True, kw_only=True):
    """A product's settings; what is not given has its default."""

    id: Word | None = None
    """May be repeated here; the address decides."""
    repos: Annotated[tuple[Word, ...], Meta(max_length=1000)] = ()
    """The repos that it owns, by their short names; empty: any repo may be named."""
    share: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    weights: WeightsDoc = WeightsDoc()
    protected_paths: Annotated[tuple[Line, ...], Meta(max_length=500)] = ()
    target_wait: dict[Priority, Word] = field(default_factory=dict)
    """How long a job of a priority should wait at most, as `5m`; what waits longer is told."""

    def read(self, product_id: str) -> Product:
        """The record of it.

        Raises Invalid.
        """
        faults = [
            *_faults("repos", self.repos, reference),
            *_faults("protectedPaths", self.protected_paths, glob),
            *(
                Fault(f"targetWait.{priority}", f"found {text[:60]!r}; expected {expected}")
                for priority, text in self.target_wait.items()
                if (expected := not_a_wait(text))
            ),
        ]
        if faults:
            raise Invalid("the product", faults)
        return Product(
            id=product_id,
            repos=self.repos,
            share=self.share,
            weights=self.weights.read(),
            protected_paths=self.protected_paths,
            target_wait={of: parse_duration(text) for of, text in self.target_wait.items()},
        )


def not_a_wait(text: str) -> str | None:
    """What is expected in place of a text that is no time to wait; None for one that is."""
    try:
        return None if parse_duration(text) else "more than nothing"
    except ValueError as expected:
        return str(expected)


def _faults(field: str, texts: tuple[str, ...], check: Callable[[str], str]) -> Iterator[Fault]:
    for number, text in enumerate(texts):
        try:
            check(text)
        except ValueError as expected:
            yield Fault(f"{field}[{number}]", f"found {text[:60]!r}; expected {expected}")


class ProductsView(View, frozen=True, kw_only=True):
    """The products that were set up, by id."""

    products: list[views.ProductView]


@get("/products", opt=operation(TAG, gives={200: Body(of=ProductsView)}))
async def list_products(request: Call) -> ASGIApp:
    """List the products that were set up, of those that the token covers."""
    caller = await request.caller()
    found = await request.coordinator.products.all(caller)
    return answer(ProductsView(products=[views.product(product) for product in found]))


@get(
    "/products/{product_id:str}",
    opt=operation(TAG, gives={200: Body(of=views.ProductView, example=PRODUCT)}, refuses=(404,)),
)
async def get_product(request: Call) -> ASGIApp:
    """Show a product; one that nobody has set up exists with its defaults."""
    caller = await request.caller()
    return answer(
        views.product(await request.coordinator.products.get(caller, named_product(request)))
    )


@put(
    "/products/{product_id:str}",
    opt=operation(
        TAG,
        takes=Body(of=ProductDoc, example=PRODUCT),
        gives={200: Body(of=views.ProductView, example=PRODUCT)},
        refuses=(404, 409),
    ),
)
async def put_product(request: Call) -> ASGIApp:
    """Set a product up: the repos that it owns, its share of the fleet, its weights."""
    caller = await request.caller()
    product = (await request.decoded(ProductDoc)).read(named_product(request))
    return answer(views.product(await request.coordinator.products.put(caller, product)))


def named_product(request: Call) -> str:
    """The product in the path.

    Raises NotFound for what cannot be one.
    """
    product_id = request.named("product_id", "product")
    try:
        return slug(product_id)
    except ValueError as expected:
        raise NotFound("product", product_id, f"its name is {expected}") from None


ROUTES = (list_products, get_product, put_product)
