"""A tracker without an API: it only sends webhooks and cannot be read or updated."""

from collections.abc import Collection, Sequence

from gigafactory.domain.errors import TrackerRefused
from gigafactory.domain.tracker.ticket import Ticket, TicketStatus
from gigafactory.trackers.http import decode_delivery
from gigafactory.trackers.items import ItemDelivery


class WebhookOnlyTracker:
    """Tracker adapter that only understands deliveries."""

    async def item(self, item_id: str) -> Ticket | None:
        raise TrackerRefused(
            f"cannot read ticket {item_id}: the tracker has no url configured (webhook-only)"
        )

    async def items_for_agents(self) -> Sequence[Ticket]:
        return ()

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        del status, labels
        raise TrackerRefused(
            f"cannot update ticket {item.id}: the tracker has no url configured (webhook-only)"
        )

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        del text, marker
        raise TrackerRefused(
            f"cannot update ticket {item_id}: the tracker has no url configured (webhook-only)"
        )

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        about = decode_delivery(body, ItemDelivery).item
        return None if about is None else about.to_item()
