"""Logs: chunks that a worker sends while it runs, and their readers."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from gigafactory.coordinator.core.ports import Blobs
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import LogGap, TooLarge
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.tenancy.access import Caller

CHUNK_BYTES_MAX = 1 << 20
LOG_BYTES_MAX = 1 << 30
"""A run's log ends here; what comes after is not taken."""
ENDS_MAX = 10_000


def log_prefix(run_id: str) -> str:
    """How the keys of a run's chunks begin."""
    return f"logs/{run_id.replace('.', '/')}/"


def _key(prefix: str, offset: int) -> str:
    return f"{prefix}{offset:016d}"


def _offset(key: str) -> int:
    return int(key.rpartition("/")[2])


class Logs:
    """A run's log is a row of chunks, each under the offset at which it begins."""

    def __init__(self, blobs: Blobs, workers: WorkerWrites) -> None:
        self._blobs = blobs
        self._workers = workers
        self._bell = asyncio.Event()
        self._ends: dict[str, int] = {}
        """Where logs ended when they were last seen; they may have grown since."""

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
            job = await self._workers.require_job(caller, job_id)
            lease = require_lease(job, caller.factory_id or "", epoch)
            return await self._append(log_prefix(lease.run_id), offset, data)

    async def _append(self, prefix: str, offset: int, data: bytes) -> int:
        known = self._ends.get(prefix, -1)
        while True:
            end = known if known >= offset else await self._find_end(prefix, max(0, known))
            known = -1
            if offset > end:
                raise LogGap(offset, end)
            rest = data[end - offset :]
            if not rest:
                return end
            if end + len(rest) > LOG_BYTES_MAX:
                raise TooLarge(f"the log of a run has at most {LOG_BYTES_MAX} bytes")
            # Under a new key only: of two senders one writes, the other looks again. A log that
            # has grown elsewhere since it was seen goes on under just this key.
            if await self._blobs.put_new(_key(prefix, end), rest):
                self._remember_end(prefix, end + len(rest))
                bell, self._bell = self._bell, asyncio.Event()
                bell.set()
                return end + len(rest)

    async def _find_end(self, prefix: str, known: int) -> int:
        """Where a log ends that reaches at least as far as is known."""
        sizes = await self._chunks(prefix, known - 1)
        last = max(sizes, default="")
        end = _offset(last) + sizes[last] if last else 0
        self._remember_end(prefix, end)
        return end

    def _remember_end(self, prefix: str, end: int) -> None:
        if len(self._ends) >= ENDS_MAX:
            self._ends.clear()
        self._ends[prefix] = end

    async def _chunks(self, prefix: str, start: int) -> Mapping[str, int]:
        """The chunks from the one with this offset on, and perhaps some before it."""
        before = start - CHUNK_BYTES_MAX
        return await self._blobs.sizes(prefix, after=_key(prefix, before) if before > 0 else "")

    async def wait_for_growth(self, wait_s: float) -> None:
        """Wait until some log has grown here, or for so long: others may take chunks too."""
        try:
            async with asyncio.timeout(wait_s):
                await self._bell.wait()
        except TimeoutError:
            return

    async def size(self, run_id: str) -> int:
        """How many bytes a run has logged so far."""
        prefix = log_prefix(run_id)
        return await self._find_end(prefix, self._ends.get(prefix, 0))

    async def read(self, run_id: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """The log of a run from an offset to its present end, in pieces."""
        sizes = await self._chunks(log_prefix(run_id), start)
        for key in sorted(sizes):
            begins = _offset(key)
            if begins + sizes[key] > start:
                async for piece in self._blobs.read(key, start=max(0, start - begins)):
                    yield piece
