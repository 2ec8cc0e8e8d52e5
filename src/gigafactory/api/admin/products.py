"""Product endpoints."""

from litestar import get, put
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import fleet as views
from gigafactory.domain.errors import NotFound
from gigafactory.domain.manifest.names import slug
from gigafactory.wire.products import ProductDoc, ProductsView, ProductView

TAG = "Products"
PRODUCT = {
    "id": "notes",
    "repos": ["notes"],
    "share": 1.0,
    "weights": {"capabilityFit": 1.0, "affinity": 0.5},
    "protectedPaths": [".github/**"],
    "targetWait": {"critical": "5m"},
}


@get("/products", opt=operation(TAG, responses={200: Body(of=ProductsView)}))
async def list_products(request: ApiRequest) -> ASGIApp:
    """List the configured products that the token covers."""
    caller = await request.caller()
    products = await request.coordinator.products.all(caller)
    return json_response(
        ProductsView(products=tuple(views.render_product(product) for product in products))
    )


@get(
    "/products/{product_id:str}",
    opt=operation(TAG, responses={200: Body(of=ProductView, example=PRODUCT)}, errors=(404,)),
)
async def get_product(request: ApiRequest) -> ASGIApp:
    """Return a product; one that is not configured has defaults."""
    caller = await request.caller()
    return json_response(
        views.render_product(await request.coordinator.products.get(caller, path_product(request)))
    )


@put(
    "/products/{product_id:str}",
    opt=operation(
        TAG,
        body=Body(of=ProductDoc, example=PRODUCT),
        responses={200: Body(of=ProductView, example=PRODUCT)},
        errors=(404, 409),
    ),
)
async def put_product(request: ApiRequest) -> ASGIApp:
    """Configure a product: its repos, share of the fleet, weights."""
    caller = await request.caller("products")
    product = (await request.json_body(ProductDoc)).to_domain(path_product(request))
    return json_response(
        views.render_product(await request.coordinator.products.put(caller, product))
    )


def path_product(request: ApiRequest) -> str:
    """Return the product id from the path.

    Raises NotFound for an invalid one.
    """
    product_id = request.path_name("product_id", "product")
    try:
        return slug(product_id)
    except ValueError as expected:
        raise NotFound("product", product_id, f"its name is {expected}") from None


ROUTES = (list_products, get_product, put_product)
