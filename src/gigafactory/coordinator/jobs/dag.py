"""The sub-tree of a job with its states, and what it comes to: derived at each look."""

from collections.abc import Sequence

import msgspec

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.coordinator.core.subtree import subtree
from gigafactory.coordinator.jobs.queries import Jobs
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.composite.rollup import Rollup, rollup
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.lease import run_id
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.tenancy.access import Caller

RUNS_AT_ONCE = 5_000
NEAR_MAX = 24
"""So many of each kind are told of what is near to a job."""


class Dag(msgspec.Struct, frozen=True):
    """A job, all that is below it, and their sum."""

    job: Job
    below: Sequence[Job]
    rollup: Rollup
    cut: bool
    """Whether there is more than is told."""


class Near(msgspec.Struct, frozen=True):
    """What is near to a job: what it waits for, what waits for it, and its own children."""

    before: Sequence[Job]
    after: Sequence[Job]
    parts: Sequence[Job]
    cut: bool
    """Whether there is more than is told."""


class Dags:
    """The reads on composites."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        """Read from this store."""
        self._store = store
        self._jobs = jobs

    async def of(self, caller: Caller, reference: str) -> Dag:
        """The sub-tree of a job, whatever its kind.

        Raises NotFound.
        """
        job = await self._jobs.get(caller, reference)
        found = await subtree(self._store, job, most=CHILDREN_MAX)
        below = found[:CHILDREN_MAX]
        runs = await self._runs((job, *below))
        flagged = [self._jobs.flagged(each) for each in below]
        ceiling = await self._store.record(Ceiling, job.id) if job.composite else None
        total = rollup(job, flagged if job.composite else (job,), runs, ceiling)
        return Dag(job, flagged, total, cut=len(found) > len(below))

    async def near(self, caller: Caller, job: Job) -> Near:
        """The neighbours of a job, as far as the caller may see them; of many, the first."""
        waiting = await self._store.dependents(job.id)
        before = await self._jobs.some(caller, job.deps[:NEAR_MAX])
        after = await self._jobs.some(caller, [each.id for each in waiting[:NEAR_MAX]])
        children = JobQuery(parent_id=job.id, oldest_first=True, limit=NEAR_MAX + 1)
        parts = await self._jobs.find(caller, children) if job.composite else ()
        cut = max(len(job.deps), len(waiting), len(parts)) > NEAR_MAX
        return Near(before, after, parts[:NEAR_MAX], cut)

    async def _runs(self, jobs: Sequence[Job]) -> list[Run]:
        """Every run of these: their ids are known, so that no job needs a query of its own."""
        ids = [run_id(job.id, epoch) for job in jobs for epoch in range(1, job.lease_epoch + 1)]
        found: list[Run] = []
        for first in range(0, len(ids), RUNS_AT_ONCE):
            some = await self._store.some(Run, ids[first : first + RUNS_AT_ONCE])
            found += some.values()
        return found
