"""Reading logs: which run's, which part of it, and on while it grows."""

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
    """Some bytes of a log, and the offset after them."""

    data: bytes
    end: int


def awaits_run(job: Job) -> bool:
    """Whether a run of this job is still to come; a schedule's template has none of its own."""
    if job.terms.schedule is not None or job.lease is not None:
        return False
    return job.step is not None or (job.stage is Stage.BLOCKED and not job.composite)


class LogReader:
    """The verbs by which somebody reads a run's log."""

    def __init__(
        self, store: Store, index: Index, jobs: JobQueries, logs: Logs, tokens: Tokens
    ) -> None:
        self._index = index
        self._store = store
        self._jobs = jobs
        self._logs = logs
        self._tokens = tokens

    async def find_run(self, caller: Caller, reference: str, wanted: str | None) -> Run:
        """The run that is meant: by its id, its number, or the newest.

        Raises NotFound.
        """
        job = await self._jobs.lookup(caller, reference)
        runs = await self._jobs.runs(job)
        found = [run for run in runs if wanted in (None, run.id, str(run.number))]
        if not found:
            which = "run" if wanted is None else f"run {wanted} of"
            raise NotFound(f"{which} job", reference, "it has no such run yet")
        return found[-1]

    async def wait_for_run(self, caller: Caller, reference: str) -> Run | None:
        """The newest run, once a job that waits for one has it; None when it ends without any.

        Raises NotFound.
        """
        while True:
            # The bell first: what happens while we look rings it.
            bell = self._index.next_update
            job = await self._jobs.lookup(caller, reference)
            if not awaits_run(job) or not await self._tokens.is_valid(caller):
                runs = await self._jobs.runs(job)
                return runs[-1] if runs else None
            await bell.wait()

    async def resolve_range(
        self, run: Run, *, offset: int = 0, tail: int | None = None, limit: int | None = None
    ) -> tuple[int, int]:
        """Where a reading begins and ends: from an offset, or the last bytes, at most `limit`."""
        end = await self._logs.size(run.id)
        start = min(offset, end) if tail is None else max(0, end - tail)
        return start, end if limit is None else min(end, start + limit)

    async def read(self, run: Run, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from one offset to another, in pieces."""
        left = end - start
        async for data in self._logs.read(run.id, start=start):
            if left <= 0:
                return
            yield data[:left]
            left -= len(data)

    async def follow(self, caller: Caller, run: Run, start: int) -> AsyncIterator[LogPiece]:
        """The log from an offset on, until the run has ended and all of it was told."""
        while await self._tokens.is_valid(caller):
            now = await self._store.record(Run, run.id)
            began = start
            async for data in self._logs.read(run.id, start=start):
                start += len(data)
                yield LogPiece(data, start)
            if start > began:
                continue
            if now is None or now.ended_at is not None:
                return
            await self._logs.wait_for_growth(LOOK_AGAIN_S)
