"""Wrong secrets of strangers: counted in memory, recorded in the audit log once a minute."""

from collections import Counter
from datetime import timedelta

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, RecordChange, Stored
from gigafactory.domain.tenancy.access import SecretGuessing

ACTOR = "system:api"
KEPT_FOR = timedelta(days=1)
SOURCES_MAX = 1000
"""Addresses that are counted one by one between two events."""
OTHERS = "others"


class WrongSecrets:
    """The duty that records refused secrets; a refused request itself stores nothing."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._counts: dict[str, Counter[tuple[str, str]]] = {}

    def count_token(self, address: str) -> None:
        """Count a refused token of an address that has presented too many."""
        self._count(event_types.TOKEN_GUESSING, (address, ""))

    def count_signature(self, address: str, tracker: str) -> None:
        """Count a refused signature of a webhook delivery."""
        self._count(event_types.WEBHOOK_REFUSED, (address, tracker))

    def _count(self, kind: str, source: tuple[str, str]) -> None:
        counts = self._counts.setdefault(kind, Counter())
        if source not in counts and len(counts) >= SOURCES_MAX:
            source = (OTHERS, "")
        counts[source] += 1

    async def step(self) -> None:
        """Store one audit event of each kind for all that was refused since the last one."""
        for kind, counts in tuple(self._counts.items()):
            # Requests go on counting while the event is stored.
            self._counts[kind] = Counter()
            stored = False
            try:
                stored = not counts or await self._record(kind, counts)
            finally:
                if not stored:
                    self._counts[kind] += counts

    async def _record(self, kind: str, counts: Counter[tuple[str, str]]) -> bool:
        now = self._clock.now()
        before = await self._store.record(SecretGuessing, kind)
        after = SecretGuessing(
            address=kind,
            attempts=counts.total(),
            expires_at=now + KEPT_FOR,
            rev=before.rev + 1 if before else 1,
        )
        (address, tracker), _ = counts.most_common(1)[0]
        data = {
            "address": address,
            "attempts": counts.total(),
            "addresses": len({source for source, _ in counts}),
        }
        data |= {"tracker": tracker} if tracker else {}
        event = audit_event(kind, ACTOR, now, data, (FLEET,))
        change = RecordChange(before=before, after=after, events=(event,))
        return isinstance(await self._committer.commit(ACTOR, "guessing", change), Stored)
