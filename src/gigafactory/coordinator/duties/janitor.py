"""The janitor: removes expired records, orphan blobs and long-gone factories."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, Store, all_records
from gigafactory.coordinator.files.orphan_blobs import OrphanBlobs
from gigafactory.coordinator.index.past_capabilities import departure_data
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job import event_types
from gigafactory.domain.job.artifact import ArtifactLink
from gigafactory.domain.job.change import Record, RecordChange, Stored
from gigafactory.domain.tenancy.access import Enrollment, LoginCode, SecretGuessing, Token
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.domain.tenancy.notification import Notification
from gigafactory.domain.tracker.ticket_update import TicketCursor
from gigafactory.domain.tracker.webhook_delivery import WebhookDelivery

ACTOR = "system:janitor"
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


PAGES_MAX = 200
"""Pages of each kind that one step removes at most: 100,000 records."""
BATCH = 100
"""Records that are removed in one commit."""


def batched(records: Sequence[Record], size: int) -> Iterator[Sequence[Record]]:
    """Return the records in groups of at most `size`."""
    return (records[start : start + size] for start in range(0, len(records), size))


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
        """Remove expired records of each kind until none is left, up to a limit."""
        for kind in OUTDATED:
            await self._remove_expired(kind)
        await self._orphans.sweep()
        await self._deregister()

    async def _remove_expired(self, kind: type[Record]) -> None:
        now = self._clock.now()
        for _ in range(PAGES_MAX):
            page = await self._store.expired_records(kind, now)
            removed = [await self._remove(some) for some in batched(page, BATCH)]
            if len(page) < PAGE_MAX or not any(removed):
                return

    async def _remove(self, records: Sequence[Record]) -> bool:
        """Remove some records in one commit, or one by one if any has changed meanwhile."""
        deletions = [RecordChange(before=record, after=None) for record in records]
        if isinstance(await self._committer.commit(ACTOR, "forget", *deletions), Stored):
            return True
        verdicts = [await self._committer.commit(ACTOR, "forget", each) for each in deletions]
        return any(isinstance(verdict, Stored) for verdict in verdicts)

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
                ACTOR,
                now,
                departure_data(factory),
                factory.products,
            )
            await self._committer.commit(
                ACTOR, "deregister", RecordChange(before=factory, after=None, events=(event,))
            )
