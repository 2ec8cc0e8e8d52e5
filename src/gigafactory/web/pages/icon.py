"""The icon of the tab, with how many things wait for a person."""

from typing import Annotated

from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.web.site.rendering import rendered

MANY = 99


class Count(Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    count: Annotated[int, Meta(ge=0)] = 0


@get("/icon.svg")
async def icon(request: ApiRequest) -> ASGIApp:
    """The icon; amber with a number when it is somebody's turn."""
    count = request.query(Count).count
    told = "" if not count else str(count) if count <= MANY else f"{MANY}+"
    svg = rendered("icon.svg", told=told)
    return HttpResponse(
        200, svg.encode(), media_type=b"image/svg+xml", cache=b"public, max-age=86400"
    )


ROUTES = (icon,)
