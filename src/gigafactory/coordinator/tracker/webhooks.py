"""Receive webhooks of trackers: signed, processed once, item read from the tracker."""

from collections.abc import Mapping

from gigafactory.coordinator.access.wrong_secrets import WrongSecrets
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store, TrackerBinding
from gigafactory.coordinator.jobs.submissions import SubmissionResult
from gigafactory.coordinator.tracker.ticket_importer import TicketImporter
from gigafactory.domain.errors import Refused, Replayed, Unauthenticated, Unavailable
from gigafactory.domain.job.change import FLEET, RecordChange, Stored
from gigafactory.domain.tracker.ticket import is_handed_over
from gigafactory.domain.tracker.webhook_delivery import (
    WebhookDelivery,
    has_valid_signature,
    new_deliveries,
)

ACTOR = "system:webhook"


class WebhookReceiver:
    """Receives webhook deliveries of trackers."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        tickets: TicketImporter,
        wrong_secrets: WrongSecrets,
        places: Mapping[str, TrackerBinding],
        *,
        agent: str,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._importer = tickets
        self._wrong_secrets = wrong_secrets
        self._places = places
        self._agent = agent

    def require_tracker(self, product: str | None) -> TrackerBinding:
        """Return the tracker that may send deliveries for a product, before its body is read.

        Raises Unauthenticated if there is none.
        """
        place = self._places.get(product or FLEET)
        if place is None or not place.secret:
            raise Unauthenticated("no tracker with a webhook secret is configured for this product")
        return place

    async def receive(
        self,
        body: bytes,
        *,
        product: str | None,
        signature: str,
        delivery: str | None,
        address: str,
    ) -> SubmissionResult:
        """Process a delivery; return the job of its item, if that was assigned to the agent.

        Raises Unauthenticated for a bad signature, Replayed, Malformed, TrackerUnavailable, and
        what `submit` raises.
        """
        place, name = self.require_tracker(product), product or FLEET
        if not has_valid_signature(place.secret, body, signature):
            self._wrong_secrets.count_signature(address, name)
            raise Unauthenticated("the signature is invalid: compare the secret on both sides")
        records = new_deliveries(name, delivery, signature, now=self._clock.now())
        if await self._store.records_by_key(WebhookDelivery, [record.key for record in records]):
            raise Replayed("this delivery was already processed; nothing is done twice")
        try:
            made = await self._ingest(place, body)
        except Unavailable:
            raise
        except Refused:
            await self._record_delivery(records)
            raise
        await self._record_delivery(records)
        return made

    async def _ingest(self, place: TrackerBinding, body: bytes) -> SubmissionResult:
        item = await place.tracker.item_of_delivery(body)
        if item is None:
            return SubmissionResult((), created=False)
        if not is_handed_over(item, self._agent):
            await self._importer.record_defects(place, item)
            return SubmissionResult((), created=False)
        return await self._importer.import_item(place, item)

    async def _record_delivery(self, records: list[WebhookDelivery]) -> None:
        """Record a processed delivery; of two at once, one raises Replayed."""
        saved = [RecordChange(before=None, after=record) for record in records]
        if not isinstance(await self._committer.commit(ACTOR, "delivery", *saved), Stored):
            raise Replayed("this delivery was already processed; nothing is done twice")
