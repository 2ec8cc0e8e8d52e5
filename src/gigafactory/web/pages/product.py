"""Choose the product that all pages show."""

from typing import Annotated

from litestar import post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import NotFound
from gigafactory.web.site.rendering import see_other
from gigafactory.web.site.session import WebForm, product_cookie, read_form

BACK_PAGES = ("/jobs", "/fleet", "/new", "/budget", "/insights", "/settings", "/audit")


class ProductChoiceForm(WebForm, frozen=True, kw_only=True):
    """The chosen product; empty for all products."""

    product: Annotated[str, Meta(max_length=200)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/product")
async def choose_product(request: ApiRequest) -> ASGIApp:
    """Store the choice in a cookie and return to the page."""
    session, form = await read_form(request, ProductChoiceForm)
    if form.product and form.product not in session.products:
        raise NotFound("product", form.product, "no visible job or factory belongs to it")
    back = form.back if form.back in BACK_PAGES else "/"
    return see_other(back, product_cookie(request, form.product))


ROUTES = (choose_product,)
