"""Orphan blobs: blobs without a record, tracked so that they are always removed in the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from msgspec.structs import replace

from gigafactory.coordinator.core.audit import require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Blobs, Clock, Store
from gigafactory.domain.job.artifact import OrphanBlob
from gigafactory.domain.job.change import RecordChange, Stored

ACTOR = "system:blobs"
UPLOAD_GRACE = timedelta(hours=1)
"""Time for an upload to finish; after that, the janitor removes its bytes."""


class OrphanBlobs:
    """Keeps blobs and records consistent across crashes.

    A note marks an orphan blob. The commit that creates a blob's record removes its note; the
    commit that removes the record adds a note. So every blob with a note can be deleted.
    """

    def __init__(self, store: Store, committer: Committer, clock: Clock, blobs: Blobs) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self.blobs = blobs

    @asynccontextmanager
    async def reserve(self, key: str) -> AsyncIterator[OrphanBlob]:
        """Reserve a key for an upload; a blob that is still an orphan at the end is removed."""
        note = OrphanBlob(key=key, expires_at=self._clock.now() + UPLOAD_GRACE)
        verdict = await self._committer.commit(
            ACTOR, "begin-blob", RecordChange(before=None, after=note)
        )
        require_stored(verdict, "the same bytes are being uploaded right now; try again")
        try:
            yield note
        finally:
            if await self.is_orphan(note):
                await self.discard(note)

    async def is_orphan(self, note: OrphanBlob) -> bool:
        """Whether the note still exists unchanged."""
        return await self._store.record(OrphanBlob, note.key) == note

    def orphan(self, key: str, now: datetime) -> RecordChange:
        """Return the write that marks a blob as an orphan when its record is removed."""
        return RecordChange(before=None, after=OrphanBlob(key=key, expires_at=now))

    async def discard(self, note: OrphanBlob) -> None:
        """Remove an orphan blob, then its note; do nothing after a lost race."""
        # Change the note first: a commit that creates the blob's record then fails.
        taken = replace(note, expires_at=self._clock.now(), rev=note.rev + 1)
        verdict = await self._committer.commit(
            ACTOR, "drop-blob", RecordChange(before=note, after=taken)
        )
        if isinstance(verdict, Stored):
            await self.blobs.delete(note.key)
            await self._committer.commit(
                ACTOR, "dropped-blob", RecordChange(before=taken, after=None)
            )

    async def drop(self, key: str) -> None:
        """Remove a blob now if it is an orphan."""
        note = await self._store.record(OrphanBlob, key)
        if note is not None:
            await self.discard(note)

    async def sweep(self) -> None:
        """Remove expired orphans, a page at a time."""
        for note in await self._store.expired_records(OrphanBlob, self._clock.now()):
            await self.discard(note)
