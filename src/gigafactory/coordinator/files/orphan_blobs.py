"""Blobs that no record refers to, yet or any more: noted before they are, and gone in the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from msgspec.structs import replace

from gigafactory.coordinator.core.audit import require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Blobs, Clock, Store
from gigafactory.domain.job.artifact import OrphanBlob
from gigafactory.domain.job.change import RecordChange, Stored

WHO = "system:blobs"
UPLOAD_GRACE = timedelta(hours=1)
"""So long bytes may be on their way; then the janitor takes them for left behind."""


class OrphanBlobs:
    """Keeps blobs and records in step, whoever dies between the two.

    Whoever makes a record for bytes removes their note in the same commit; whoever removes a record
    leaves a note. So what has a note belongs to nobody, and can go.
    """

    def __init__(self, store: Store, committer: Committer, clock: Clock, blobs: Blobs) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self.blobs = blobs

    @asynccontextmanager
    async def reserve(self, key: str) -> AsyncIterator[OrphanBlob]:
        """A note for bytes that are about to come; what then still has it is gone at the end."""
        note = OrphanBlob(key=key, expires_at=self._clock.now() + UPLOAD_GRACE)
        verdict = await self._committer.commit(
            WHO, "begin-blob", RecordChange(before=None, after=note)
        )
        require_stored(verdict, "somebody sends the same bytes at this moment; try again")
        try:
            yield note
        finally:
            if await self.is_orphan(note):
                await self.discard(note)

    async def is_orphan(self, note: OrphanBlob) -> bool:
        """Whether a note is still there as it was made."""
        return await self._store.record(OrphanBlob, note.key) == note

    def orphan(self, key: str, now: datetime) -> RecordChange:
        """The write that goes with the end of the record of these bytes."""
        return RecordChange(before=None, after=OrphanBlob(key=key, expires_at=now))

    async def discard(self, note: OrphanBlob) -> None:
        """Remove bytes that have a note, then the note; nothing when somebody was quicker."""
        # Taken over first: whoever was about to make a record of them finds the note moved.
        taken = replace(note, expires_at=self._clock.now(), rev=note.rev + 1)
        verdict = await self._committer.commit(
            WHO, "drop-blob", RecordChange(before=note, after=taken)
        )
        if isinstance(verdict, Stored):
            await self.blobs.delete(note.key)
            await self._committer.commit(
                WHO, "dropped-blob", RecordChange(before=taken, after=None)
            )

    async def drop(self, key: str) -> None:
        """Remove these bytes now, if they have a note."""
        note = await self._store.record(OrphanBlob, key)
        if note is not None:
            await self.discard(note)

    async def sweep(self) -> None:
        """Remove what was left behind, a page at a time."""
        for note in await self._store.expired_records(OrphanBlob, self._clock.now()):
            await self.discard(note)
