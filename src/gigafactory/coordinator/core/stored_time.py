"""The newest time in a store: where the clock of a restarted coordinator goes on."""

from datetime import UTC, datetime

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.tenancy.leader import LeaderHeartbeat

REAPER = "reaper"
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


async def newest_stored_time(store: Store) -> datetime:
    """Return the time of the newest event or beat of the reaper; the beginning of time if none."""
    newest = await store.feed(after=max(0, await store.position() - 1), limit=1)
    heartbeat = await store.record(LeaderHeartbeat, REAPER)
    return max(
        [
            BEGINNING,
            *(entry.event.at for entry in newest),
            *([heartbeat.until] if heartbeat else []),
        ]
    )
