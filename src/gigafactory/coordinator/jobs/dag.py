"""The sub-tree of a job with its states, and what it comes to: derived at each look."""

from collections.abc import Sequence

import msgspec

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.coordinator.core.subtree import subtree
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.composite.rollup import CompositeRollup, roll_up
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.lease import run_id
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.tenancy.access import Caller

RUNS_AT_ONCE = 5_000
NEIGHBOURS_MAX = 24
"""So many of each kind are told of what is near to a job."""


class JobDag(msgspec.Struct, frozen=True):
    """A job, all that is below it, and their sum."""

    job: Job
    descendants: Sequence[Job]
    rollup: CompositeRollup
    truncated: bool
    """Whether there is more than is told."""


class Neighbours(msgspec.Struct, frozen=True):
    """What is near to a job: what it waits for, what waits for it, and its own children."""

    dependencies: Sequence[Job]
    dependents: Sequence[Job]
    children: Sequence[Job]
    truncated: bool
    """Whether there is more than is told."""


class DagQueries:
    """The reads on composites."""

    def __init__(self, store: Store, jobs: JobQueries) -> None:
        """Read from this store."""
        self._store = store
        self._jobs = jobs

    async def get(self, caller: Caller, reference: str) -> JobDag:
        """The sub-tree of a job, whatever its kind.

        Raises NotFound.
        """
        job = await self._jobs.get(caller, reference)
        found = await subtree(self._store, job, most=CHILDREN_MAX)
        below = found[:CHILDREN_MAX]
        runs = await self._find_runs((job, *below))
        flagged = [self._jobs.with_fleet_flags(each) for each in below]
        ceiling = await self._store.record(Ceiling, job.id) if job.composite else None
        total = roll_up(job, flagged if job.composite else (job,), runs, ceiling)
        return JobDag(job, flagged, total, truncated=len(found) > len(below))

    async def find_neighbours(self, caller: Caller, job: Job) -> Neighbours:
        """The neighbours of a job, as far as the caller may see them; of many, the first."""
        waiting = await self._store.dependents(job.id)
        before = await self._jobs.find_many(caller, job.deps[:NEIGHBOURS_MAX])
        after = await self._jobs.find_many(caller, [each.id for each in waiting[:NEIGHBOURS_MAX]])
        children = JobQuery(parent_id=job.id, oldest_first=True, limit=NEIGHBOURS_MAX + 1)
        parts = await self._jobs.find(caller, children) if job.composite else ()
        cut = max(len(job.deps), len(waiting), len(parts)) > NEIGHBOURS_MAX
        return Neighbours(before, after, parts[:NEIGHBOURS_MAX], cut)

    async def _find_runs(self, jobs: Sequence[Job]) -> list[Run]:
        """Every run of these: their ids are known, so that no job needs a query of its own."""
        ids = [run_id(job.id, epoch) for job in jobs for epoch in range(1, job.lease_epoch + 1)]
        found: list[Run] = []
        for first in range(0, len(ids), RUNS_AT_ONCE):
            some = await self._store.records_by_key(Run, ids[first : first + RUNS_AT_ONCE])
            found += some.values()
        return found
