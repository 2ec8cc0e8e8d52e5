"""Logs: chunks that a worker sends while it runs, and their readers."""

import asyncio
from collections.abc import AsyncIterator

from gigafactory.coordinator.ports import Blobs
from gigafactory.coordinator.workers import Workers
from gigafactory.domain.access import Caller
from gigafactory.domain.errors import LogGap, TooLarge
from gigafactory.domain.lease import require_lease

CHUNK_BYTES_MAX = 1 << 20
LOG_BYTES_MAX = 1 << 30
"""A run's log ends here; what comes after is not taken."""


def _prefix(run_id: str) -> str:
    return f"logs/{run_id.replace('.', '/')}/"


class Logs:
    """A run's log is a row of chunks, each under the offset at which it begins."""

    def __init__(self, blobs: Blobs, workers: Workers) -> None:
        """Keep logs among these blobs."""
        self._blobs = blobs
        self._workers = workers
        self._bell = asyncio.Event()

    async def append(
        self, caller: Caller, job_id: str, epoch: int, offset: int, data: bytes
    ) -> int:
        """Take a chunk of the log of the run under this epoch; the offset to go on from.

        What was sent before is harmless. Raises Fenced, LogGap when something is missing before it,
        TooLarge.
        """
        if len(data) > CHUNK_BYTES_MAX:
            raise TooLarge(
                f"a chunk has at most {CHUNK_BYTES_MAX} bytes; this one has {len(data)}: split it"
            )
        async with self._workers.fenced(caller, job_id, epoch):
            job = await self._workers.job(caller, job_id)
            lease = require_lease(job, caller.factory_id or "", epoch)
            return await self._append(_prefix(lease.run_id), offset, data)

    async def _append(self, prefix: str, offset: int, data: bytes) -> int:
        while True:
            end = await self._end(prefix)
            if offset > end:
                raise LogGap(offset, end)
            rest = data[end - offset :]
            if not rest:
                return end
            if end + len(rest) > LOG_BYTES_MAX:
                raise TooLarge(f"the log of a run has at most {LOG_BYTES_MAX} bytes")
            # Under a new key only: of two senders one writes, the other looks again.
            if await self._blobs.put_new(f"{prefix}{end:016d}", rest):
                bell, self._bell = self._bell, asyncio.Event()
                bell.set()
                return end + len(rest)

    async def _end(self, prefix: str) -> int:
        sizes = await self._blobs.sizes(prefix)
        if not sizes:
            return 0
        last = max(sizes)
        return int(last.rpartition("/")[2]) + sizes[last]

    async def grown(self, wait_s: float) -> None:
        """Wait until some log has grown here, or for so long: others may take chunks too."""
        try:
            async with asyncio.timeout(wait_s):
                await self._bell.wait()
        except TimeoutError:
            return

    async def size(self, run_id: str) -> int:
        """How many bytes a run has logged so far."""
        return await self._end(_prefix(run_id))

    async def read(self, run_id: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """The log of a run from an offset to its present end, in pieces."""
        sizes = await self._blobs.sizes(_prefix(run_id))
        for key in sorted(sizes):
            begins = int(key.rpartition("/")[2])
            if begins + sizes[key] > start:
                async for piece in self._blobs.read(key, start=max(0, start - begins)):
                    yield piece
