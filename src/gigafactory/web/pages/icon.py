"""Icon of the browser tab, with the number of attention items."""

from typing import Annotated

from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.web.site.rendering import render

COUNT_MAX = 99


class IconQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Number of attention items."""

    count: Annotated[int, Meta(ge=0)] = 0


@get("/icon.svg")
async def icon(request: ApiRequest) -> ASGIApp:
    """Return the icon: amber with the number if there is any attention item."""
    count = request.query(IconQuery).count
    label = "" if not count else str(count) if count <= COUNT_MAX else f"{COUNT_MAX}+"
    svg = render("icon.svg", label=label)
    return HttpResponse(
        200, svg.encode(), media_type=b"image/svg+xml", cache=b"public, max-age=86400"
    )


ROUTES = (icon,)
