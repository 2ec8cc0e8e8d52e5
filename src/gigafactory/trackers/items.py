"""Tracker adapter for the items API: bugs, features and tasks."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx
import msgspec

from gigafactory.domain.tracker.ticket import RUN_LABEL, Ticket, TicketStatus, is_handed_over
from gigafactory.trackers.http import (
    MISSING,
    PAGE,
    PAGES_MAX,
    TrackerClient,
    decode_answer,
    decode_delivery,
    open_client,
)


class ItemDoc(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An item of the API; unknown fields are ignored."""

    id: str
    title: str
    type: str = "task"
    status: TicketStatus = "open"
    description: str | None = None
    priority: str | None = None
    labels: tuple[str, ...] = ()
    assignee: str | None = None
    assignees: tuple[str, ...] = ()
    url: str | None = None
    product_id: str | None = None

    def to_item(self) -> Ticket:
        """Convert to a tracker item."""
        return Ticket(
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


class ItemDelivery(msgspec.Struct, frozen=True):
    """A webhook delivery; without an item it is about something else."""

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
    """Open the items at this URL, of one or all products, while the block lasts."""
    headers = {} if product is None else {"x-product-id": product}
    async with open_client(url, token, headers, transport) as line:
        yield ItemsTracker(line, agent=agent)


class ItemsTracker:
    """Tracker adapter for one items API."""

    def __init__(self, client: TrackerClient, *, agent: str) -> None:
        self._client = client
        self._agent = agent

    async def item(self, item_id: str) -> Ticket | None:
        subject = f"the item {item_id}"
        answer = await self._client.request("GET", _path(item_id), subject, ok=(200, *MISSING))
        if answer.status_code in MISSING:
            return None
        return decode_answer(answer.content, ItemDoc, subject).to_item()

    async def items_for_agents(self) -> Sequence[Ticket]:
        tickets: dict[str, Ticket] = {}
        for wanted in ({"label": RUN_LABEL}, {"assignee": self._agent}):
            async for item in self._list(wanted):
                if is_handed_over(item, self._agent):
                    tickets[item.id] = item
        return list(tickets.values())

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        body: dict[str, object] = {} if status is None else {"status": status}
        if set(labels) != set(item.labels):
            body["labels"] = list(labels)
        if body:
            await self._client.request("PATCH", _path(item.id), f"the item {item.id}", json=body)

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        path, subject = f"{_path(item_id)}/comments", f"the comments of {item_id}"
        async for content in self._pages(path, subject, {}):
            existing = decode_answer(content, _Comments, subject).comments
            if any(marker in (each.body or "") for each in existing):
                return False
            if len(existing) < PAGE:
                break
        body = {"body": f"{text}\n\n{marker}"}
        await self._client.request(
            "POST", path, subject, json=body, ok=(200, 201), key=marker[5:-4]
        )
        return True

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        about = decode_delivery(body, ItemDelivery).item
        return None if about is None else await self.item(about.id)

    async def _list(self, wanted: dict[str, str]) -> AsyncIterator[Ticket]:
        async for content in self._pages("/items", "the items", wanted):
            items = decode_answer(content, _Items, "the items").items
            for doc in items:
                yield doc.to_item()
            if len(items) < PAGE:
                return

    async def _pages(
        self, path: str, subject: str, parameters: dict[str, str]
    ) -> AsyncIterator[bytes]:
        for page in range(PAGES_MAX):
            params = {**parameters, "limit": str(PAGE), "offset": str(page * PAGE)}
            yield (await self._client.request("GET", path, subject, params=params)).content


def _path(item_id: str) -> str:
    return f"/items/{quote(item_id, safe='')}"
