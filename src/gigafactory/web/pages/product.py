"""The choice of a product: every page then shows what is of it, until another one is chosen."""

from typing import Annotated

from litestar import post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import NotFound
from gigafactory.web.site.rendering import see_other
from gigafactory.web.site.session import Sent, chosen, sent

PLACES = ("/jobs", "/fleet", "/new", "/budget", "/insights", "/settings", "/audit")


class Chosen(Sent, frozen=True, kw_only=True):
    """Which one; empty for all."""

    product: Annotated[str, Meta(max_length=200)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/product")
async def choose_product(request: ApiRequest) -> ASGIApp:
    """Show one product alone, or all again, and go back to the page."""
    visitor, form = await sent(request, Chosen)
    if form.product and form.product not in visitor.products:
        raise NotFound("product", form.product, "nothing of it is known here")
    back = form.back if form.back in PLACES else "/"
    return see_other(back, chosen(request, form.product))


ROUTES = (choose_product,)
