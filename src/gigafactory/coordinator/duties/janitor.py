"""The janitor: removes expired records, orphan blobs and long-gone factories."""

from datetime import timedelta

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.files.orphan_blobs import OrphanBlobs
from gigafactory.coordinator.index.past_capabilities import departure_data
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job import event_types
from gigafactory.domain.job.artifact import ArtifactLink
from gigafactory.domain.job.change import Record, RecordChange
from gigafactory.domain.tenancy.access import Enrollment, LoginCode, SecretGuessing, Token
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.domain.tenancy.notification import Notification
from gigafactory.domain.tracker.ticket_update import TicketCursor
from gigafactory.domain.tracker.webhook_delivery import WebhookDelivery

WHO = "system:janitor"
FORGOTTEN_AFTER = timedelta(days=7)
OUTDATED: tuple[type[Record], ...] = (
    IdempotencyRecord,
    ArtifactLink,
    WebhookDelivery,
    Enrollment,
    SecretGuessing,
    LoginCode,
    Notification,
    Token,
    TicketCursor,
)


class Janitor:
    """The duty that removes expired data; unfinished jobs are never touched."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, orphans: OrphanBlobs
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._orphans = orphans

    async def step(self) -> None:
        """Remove expired records, a page of each kind at a time."""
        now = self._clock.now()
        for kind in OUTDATED:
            for record in await self._store.expired_records(kind, now):
                await self._committer.commit(WHO, "forget", RecordChange(before=record, after=None))
        await self._orphans.sweep()
        await self._deregister()

    async def _deregister(self) -> None:
        """Remove factories that were silent for a week and hold no slots."""
        now = self._clock.now()
        seen = await self._store.last_seen()
        for factory in await all_records(self._store, Factory):
            last = max(seen.get(factory.id, factory.enrolled_at), factory.enrolled_at)
            if now - last < FORGOTTEN_AFTER or await self._store.keys_with_prefix(
                f"slot/{factory.id}/"
            ):
                continue
            event = audit_event(
                event_types.FACTORY_DEREGISTERED,
                WHO,
                now,
                departure_data(factory),
                factory.products,
            )
            await self._committer.commit(
                WHO, "deregister", RecordChange(before=factory, after=None, events=(event,))
            )
