"""A tracker that only sends: what its deliveries say is all that is known of its items."""

from collections.abc import Collection, Sequence

from gigafactory.domain.errors import TrackerRefused
from gigafactory.domain.tracker.ticket import Ticket, TicketStatus
from gigafactory.trackers.http import decode_delivery
from gigafactory.trackers.items import ItemDelivery


class WebhookOnlyTracker:
    """Nothing can be asked or told; see the port for what is promised."""

    async def item(self, item_id: str) -> Ticket | None:
        raise TrackerRefused(
            f"the item {item_id} cannot be read: this tracker has no url, it only sends webhooks"
        )

    async def items_for_agents(self) -> Sequence[Ticket]:
        return ()

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        del status, labels
        raise TrackerRefused(f"the item {item.id} cannot be told: this tracker has no url")

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        del text, marker
        raise TrackerRefused(f"the item {item_id} cannot be told: this tracker has no url")

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        about = decode_delivery(body, ItemDelivery).item
        return None if about is None else about.to_item()
