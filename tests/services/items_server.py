"""A tracker with the items API on loopback, with simulated outages and lost responses."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, Response, get, patch, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from gigafactory.api.http.sse import OpenStreams
from tests.support.api_server import serving

TOKEN = "secret-of-the-tracker"
STATUSES = {"open", "in_progress", "done", "closed", "wont_fix"}

Json = dict[str, Any]


class Items:
    """The tickets of the tracker and its simulated faults."""

    def __init__(self) -> None:
        self.items: dict[str, Json] = {}
        self.comments: dict[str, list[str]] = {}
        self.away = False
        self.loses: set[str] = set()
        """Methods whose effect happens, and whose answer does not come."""
        self.asked: list[str] = []
        self.url = ""

    def file(self, title: str, **fields: object) -> str:
        """Create a ticket, by default with the label `agent:run`, and return its id."""
        item_id = f"ITEM-{uuid.uuid4().hex[:8]}"
        usual = {"type": "task", "status": "open", "description": "", "labels": ["agent:run"]}
        self.items[item_id] = {"id": item_id, "title": title, **usual, **fields}
        self.comments[item_id] = []
        return item_id

    def stages(self, item_id: str) -> list[str]:
        """Return the labels of a ticket that show its job's stage."""
        labels: list[str] = self.items[item_id]["labels"]
        return [label for label in labels if label.startswith("fleet:")]

    def openings(self, item_id: str) -> list[str]:
        """Return the first sentence of each comment."""
        return [text.split("\n")[0].split(".")[0] for text in self.comments[item_id]]

    def answer(
        self, request: Request[Any, Any, Any], body: Json, status: int = 200
    ) -> Response[Json]:
        """Return a response, or raise 504 if responses to this method are lost."""
        if request.method in self.loses:
            raise HTTPException(status_code=504, detail="the answer is lost")
        return Response(body, status_code=status)

    def meet(self, request: Request[Any, Any, Any]) -> None:
        """Reject requests without the token, and all requests during an outage."""
        self.asked.append(f"{request.method} {request.url.path}")
        if self.away:
            raise HTTPException(status_code=503, detail="away")
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise HTTPException(status_code=401, detail="no such token")

    def known(self, item_id: str) -> Json:
        """Return a ticket, or raise 404 if it does not exist."""
        if item_id not in self.items:
            raise HTTPException(status_code=404, detail="no such item")
        return self.items[item_id]


def _items(request: Request[Any, Any, Any]) -> Items:
    world: Items = request.app.state.world
    world.meet(request)
    return world


def _id(request: Request[Any, Any, Any]) -> str:
    item_id: str = request.path_params["item_id"]
    return item_id


def _page(request: Request[Any, Any, Any], found: list[Any]) -> list[Any]:
    asked = request.query_params
    offset, limit = int(asked.get("offset", "0")), int(asked.get("limit", "20"))
    return found[offset : offset + limit]


@get("/items")
async def find(request: Request[Any, Any, Any]) -> Response[Json]:
    world, asked = _items(request), request.query_params
    label, assignee = asked.get("label"), asked.get("assignee")
    product = request.headers.get("x-product-id")
    found = [
        item
        for item in world.items.values()
        if (label is None or label in item["labels"])
        and (assignee is None or item.get("assignee") == assignee)
        and (product is None or item.get("productId") in (None, product))
    ]
    return world.answer(request, {"items": _page(request, found), "total": len(found)})


@get("/items/{item_id:str}")
async def one(request: Request[Any, Any, Any]) -> Response[Json]:
    world = _items(request)
    return world.answer(request, world.known(_id(request)))


@patch("/items/{item_id:str}")
async def change(request: Request[Any, Any, Any]) -> Response[Json]:
    world = _items(request)
    item, wish = world.known(_id(request)), await request.json()
    if wish.get("status", "open") not in STATUSES or not set(wish) <= {"status", "labels"}:
        raise HTTPException(status_code=422, detail=f"cannot become {wish}")
    item |= wish
    return world.answer(request, item)


@get("/items/{item_id:str}/comments")
async def comments(request: Request[Any, Any, Any]) -> Response[Json]:
    world = _items(request)
    world.known(_id(request))
    page = _page(request, world.comments[_id(request)])
    return world.answer(request, {"comments": [{"body": text} for text in page]})


@post("/items/{item_id:str}/comments")
async def comment(request: Request[Any, Any, Any]) -> Response[Json]:
    world = _items(request)
    world.known(_id(request))
    text = (await request.json())["body"]
    world.comments[_id(request)].append(text)
    return world.answer(request, {"body": text}, 201)


@asynccontextmanager
async def an_items_server() -> AsyncIterator[Items]:
    """Run a tracker without tickets until the block ends."""
    world = Items()
    app = Litestar(
        [find, one, change, comments, comment],
        state=State({"world": world, "streams": OpenStreams()}),
        openapi_config=None,
        logging_config=None,
    )
    async with serving(app) as url:
        world.url = url
        yield world
