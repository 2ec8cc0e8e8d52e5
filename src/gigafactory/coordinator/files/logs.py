"""Logs of runs: workers append chunks, readers read them."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from gigafactory.coordinator.core.ports import Blobs
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import LogGap, TooLarge, Unavailable
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.limits import LOG_BYTES_MAX

CHUNK_BYTES_MAX = 1 << 20
ENDS_MAX = 10_000
ATTEMPTS_MAX = 20
"""How often an append looks for the end of a log that another sender extends."""


def log_prefix(run_id: str) -> str:
    """Return the key prefix of a run's chunks."""
    return f"logs/{run_id.replace('.', '/')}/"


def _key(prefix: str, offset: int, empties: int = 0) -> str:
    """Return the key of the chunk at an offset where so many empty chunks are already."""
    return f"{prefix}{offset:016d}{f'.{empties}' if empties else ''}"


def _offset(key: str) -> int:
    return int(key.rpartition("/")[2].partition(".")[0])


class Logs:
    """Stores a run's log as chunks, each under its start offset."""

    def __init__(self, blobs: Blobs, workers: WorkerWrites) -> None:
        self._blobs = blobs
        self._workers = workers
        self._growth = asyncio.Event()
        self._ends: dict[str, int] = {}
        """Last known end of each log; it may have grown since."""

    async def append(
        self, caller: Caller, job_id: str, epoch: int, offset: int, data: bytes
    ) -> int:
        """Append a chunk to the log of the run with this epoch; return the next offset.

        Repeated bytes are ignored. Raises Fenced, LogGap if bytes before the chunk are missing,
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
        end, empties = self._ends.get(prefix, -1), 0
        for _ in range(ATTEMPTS_MAX):
            if end < offset:
                end, empties = await self._find_end(prefix, max(0, end))
            if offset > end:
                raise LogGap(offset, end)
            rest = data[end - offset :]
            if not rest:
                return end
            if end + len(rest) > LOG_BYTES_MAX:
                raise TooLarge(f"the log of a run has at most {LOG_BYTES_MAX} bytes")
            # Only a new key is written: of two senders one wins, the other looks again. A log
            # that grew on another coordinator already has this key.
            if await self._blobs.put_new(_key(prefix, end, empties), rest):
                self._remember_end(prefix, end + len(rest))
                growth, self._growth = self._growth, asyncio.Event()
                growth.set()
                return end + len(rest)
            end = -1
        raise Unavailable("the log keeps changing; send the chunk again")

    async def _find_end(self, prefix: str, known: int) -> tuple[int, int]:
        """Return the end of a log that is at least `known` bytes long.

        Also return how many empty chunks are there: a power cut can leave a name without bytes.
        """
        sizes = await self._chunks(prefix, known - 1)
        end = max((_offset(key) + size for key, size in sizes.items()), default=0)
        self._remember_end(prefix, end)
        return end, sum(_offset(key) == end for key in sizes)

    def _remember_end(self, prefix: str, end: int) -> None:
        if len(self._ends) >= ENDS_MAX:
            self._ends.clear()
        self._ends[prefix] = end

    async def _chunks(self, prefix: str, start: int) -> Mapping[str, int]:
        """Return the chunks from this offset on, and possibly some before it."""
        before = start - CHUNK_BYTES_MAX
        return await self._blobs.sizes(prefix, after=_key(prefix, before) if before > 0 else "")

    async def wait_for_growth(self, wait_s: float) -> None:
        """Wait until a log grows here, at most `wait_s`: other coordinators accept chunks too."""
        try:
            async with asyncio.timeout(wait_s):
                await self._growth.wait()
        except TimeoutError:
            return

    async def size(self, run_id: str) -> int:
        """Return the current size of a run's log in bytes."""
        prefix = log_prefix(run_id)
        end, _ = await self._find_end(prefix, self._ends.get(prefix, 0))
        return end

    async def read(self, run_id: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """Yield the log of a run from an offset to its current end, in pieces."""
        sizes = await self._chunks(log_prefix(run_id), start)
        for key in sorted(sizes):
            begins = _offset(key)
            if begins + sizes[key] > start:
                async for piece in self._blobs.read(key, start=max(0, start - begins)):
                    yield piece
