"""The newest entries of the change feed in memory, so that followers rarely query the database."""

import asyncio
from collections import deque
from collections.abc import Sequence

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event

RECENT_MAX = 10_000
WAIT_S = 1.0
"""How long a lost wake-up can delay a follower; callers must wait longer than this."""


class RecentFeed:
    """A window over the end of the feed; wakes waiting followers."""

    def __init__(self, position: int = 0) -> None:
        self._recent: deque[FeedEntry] = deque(maxlen=RECENT_MAX)
        self._position = position
        self._advanced = asyncio.Event()
        self.newest: Event | None = None
        """The newest event that was seen, to recognise the history by."""

    @property
    def position(self) -> int:
        """The newest known position."""
        return self._position

    def append(self, entries: Sequence[FeedEntry], *, job_deleted: bool = False) -> None:
        """Append entries that this coordinator committed.

        The window is emptied if another coordinator committed before them, which leaves a gap, or
        if a job was deleted, because its events must no longer be returned.
        """
        if entries:
            last = self._recent[-1].event.position if self._recent else self._position
            if entries[0].event.position != last + 1:
                self._recent.clear()
            self._recent.extend(entries)
            self.note(entries)
        if job_deleted:
            self._recent.clear()
        if entries:
            self.advance(entries[-1].event.position)

    def note(self, entries: Sequence[FeedEntry]) -> None:
        """Note the newest of these entries."""
        if entries and (self.newest is None or entries[-1].event.position > self.newest.position):
            self.newest = entries[-1].event

    def reset(self, position: int) -> None:
        """Start again at a lower position, and wake all waiters."""
        self._recent.clear()
        self.newest = None
        self._position = -1
        self.advance(position)

    def advance(self, position: int) -> None:
        """Advance to this position, and wake all waiters."""
        if position > self._position:
            self._position = position
            advanced, self._advanced = self._advanced, asyncio.Event()
            advanced.set()

    def entries_after(self, after: int, limit: int) -> Sequence[FeedEntry] | None:
        """Return the entries above `after`; None if the window does not hold all of them."""
        if after >= self._position:
            return ()
        if not self._recent or self._recent[-1].event.position < self._position:
            return None
        first = self._recent[0].event.position
        if after + 1 < first:
            return None
        start = after + 1 - first
        return [self._recent[i] for i in range(start, min(start + limit, len(self._recent)))]

    async def wait(self, after: int) -> None:
        """Wait until the feed is past `after`, at most `WAIT_S`: a wake-up may be lost."""
        if self._position > after:
            return
        try:
            async with asyncio.timeout(WAIT_S):
                await self._advanced.wait()
        except TimeoutError:
            return
