"""The items API: bugs, features and tasks with a status, labels and comments."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx
import msgspec

from gigafactory.domain.tracker.ticket import RUN, Item, Status, handed_over
from gigafactory.trackers.http import (
    MISSING,
    PAGE,
    PAGES_MAX,
    Line,
    delivered,
    opened,
    read,
)


class ItemDoc(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item as the API writes it; what we do not know is passed over."""

    id: str
    title: str
    type: str = "task"
    status: Status = "open"
    description: str | None = None
    priority: str | None = None
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    assignees: tuple[str, ...] = ()
    url: str | None = None
    product_id: str | None = None

    def ours(self) -> Item:
        """The item in our words."""
        return Item(
            id=self.id,
            title=self.title,
            type=self.type,
            status=self.status,
            description=self.description or "",
            priority=self.priority,
            labels=self.labels,
            assignees=(*self.assignees, *((self.assignee,) if self.assignee else ())),
            url=self.url,
            product=self.product_id,
        )


class _Items(msgspec.Struct, frozen=True):
    items: tuple[ItemDoc, ...]


class _Comment(msgspec.Struct, frozen=True):
    body: str | None = None


class _Comments(msgspec.Struct, frozen=True):
    comments: tuple[_Comment, ...]


class Delivered(msgspec.Struct, frozen=True):
    """What a webhook brings; without an item it is about something else."""

    item: ItemDoc | None = None


@asynccontextmanager
async def open_items(
    url: str,
    token: str | None,
    *,
    product: str | None,
    agent: str,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator["ItemsTracker"]:
    """The items at this address while the block lasts; of one product, or of all."""
    headers = {} if product is None else {"x-product-id": product}
    async with opened(url, token, headers, transport) as line:
        yield ItemsTracker(line, agent=agent)


class ItemsTracker:
    """One items API; see the port for what is promised."""

    def __init__(self, line: Line, *, agent: str) -> None:
        """Ask over this line."""
        self._line = line
        self._agent = agent

    async def item(self, item_id: str) -> Item | None:
        """See the port."""
        what = f"the item {item_id}"
        answer = await self._line.ask("GET", _place(item_id), what, fine=(200, *MISSING))
        if answer.status_code in MISSING:
            return None
        return read(answer.content, ItemDoc, what).ours()

    async def items_for_agents(self) -> Sequence[Item]:
        """See the port."""
        found: dict[str, Item] = {}
        for wanted in ({"label": RUN}, {"assignee": self._agent}):
            async for item in self._listed(wanted):
                if handed_over(item, self._agent):
                    found[item.id] = item
        return list(found.values())

    async def update(self, item: Item, status: Status | None, labels: Collection[str]) -> None:
        """See the port."""
        wish: dict[str, object] = {} if status is None else {"status": status}
        if set(labels) != set(item.labels):
            wish["labels"] = list(labels)
        if wish:
            await self._line.ask("PATCH", _place(item.id), f"the item {item.id}", json=wish)

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        """See the port."""
        path, what = f"{_place(item_id)}/comments", f"the comments of {item_id}"
        async for content in self._pages(path, what, {}):
            there = read(content, _Comments, what).comments
            if any(marker in (each.body or "") for each in there):
                return False
            if len(there) < PAGE:
                break
        wish = {"body": f"{text}\n\n{marker}"}
        await self._line.ask("POST", path, what, json=wish, fine=(200, 201), key=marker[5:-4])
        return True

    async def item_of_delivery(self, body: bytes) -> Item | None:
        """See the port; the delivery is a bell, and the item is read."""
        about = delivered(body, Delivered).item
        return None if about is None else await self.item(about.id)

    async def _listed(self, wanted: dict[str, str]) -> AsyncIterator[Item]:
        async for content in self._pages("/items", "the items", wanted):
            items = read(content, _Items, "the items").items
            for doc in items:
                yield doc.ours()
            if len(items) < PAGE:
                return

    async def _pages(self, path: str, what: str, asked: dict[str, str]) -> AsyncIterator[bytes]:
        for page in range(PAGES_MAX):
            params = {**asked, "limit": str(PAGE), "offset": str(page * PAGE)}
            yield (await self._line.ask("GET", path, what, params=params)).content


def _place(item_id: str) -> str:
    return f"/items/{quote(item_id, safe='')}"
