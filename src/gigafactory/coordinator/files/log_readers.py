"""Read and follow the logs of runs."""

from collections.abc import AsyncIterator

import msgspec

from gigafactory.coordinator.access.tokens import Tokens
from gigafactory.coordinator.core.ports import Store
from gigafactory.coordinator.files.logs import Logs
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.access import Caller

LOOK_AGAIN_S = 1.0


class LogPiece(msgspec.Struct, frozen=True):
    """Bytes of a log, and the offset after them."""

    data: bytes
    end: int


def awaits_run(job: Job) -> bool:
    """Whether the job will get another run; a schedule's template never does."""
    if job.terms.schedule is not None or job.lease is not None:
        return False
    return job.step is not None or (job.stage is Stage.BLOCKED and not job.composite)


class LogReader:
    """Finds, reads and follows the logs of runs."""

    def __init__(
        self, store: Store, index: Index, jobs: JobQueries, logs: Logs, tokens: Tokens
    ) -> None:
        self._index = index
        self._store = store
        self._jobs = jobs
        self._logs = logs
        self._tokens = tokens

    async def find_run(self, caller: Caller, reference: str, wanted: str | None) -> Run:
        """Return a run by id or number, by default the newest.

        Raises NotFound.
        """
        job = await self._jobs.lookup(caller, reference)
        runs = await self._jobs.runs(job)
        matching = [run for run in runs if wanted in (None, run.id, str(run.number))]
        if not matching:
            which = "run" if wanted is None else f"run {wanted} of"
            raise NotFound(f"{which} job", reference, "the job has no such run yet")
        return matching[-1]

    async def wait_for_run(self, caller: Caller, reference: str) -> Run | None:
        """Wait until the job has the run it waits for; return the newest run, None without any.

        Raises NotFound.
        """
        while True:
            # Take the event first: changes during the lookup set it.
            update = self._index.next_update
            job = await self._jobs.lookup(caller, reference)
            if not awaits_run(job) or not await self._tokens.is_valid(caller):
                runs = await self._jobs.runs(job)
                return runs[-1] if runs else None
            await update.wait()

    async def resolve_range(
        self, run: Run, *, offset: int = 0, tail: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Return the start and end of a read: from an offset or the last bytes, at most `limit`."""
        end = await self._logs.size(run.id)
        start = min(offset, end) if tail is None else max(0, end - tail)
        return start, end if limit is None else min(end, start + limit)

    async def read(self, run: Run, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes between two offsets, in pieces."""
        left = end - start
        async for data in self._logs.read(run.id, start=start):
            if left <= 0:
                return
            yield data[:left]
            left -= len(data)

    async def follow(self, caller: Caller, run: Run, start: int) -> AsyncIterator[LogPiece]:
        """Yield the log from an offset until the run has ended and everything was read."""
        while await self._tokens.is_valid(caller):
            now = await self._store.record(Run, run.id)
            range_start = start
            async for data in self._logs.read(run.id, start=start):
                start += len(data)
                yield LogPiece(data, start)
            if start > range_start:
                continue
            if now is None or now.ended_at is not None:
                return
            await self._logs.wait_for_growth(LOOK_AGAIN_S)
