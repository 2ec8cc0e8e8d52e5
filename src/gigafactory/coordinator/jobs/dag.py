"""Queries on the job graph: sub-tree with roll-up, and neighbours of a job."""

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
"""JobNeighbours of each kind returned at most."""


class JobDag(msgspec.Struct, frozen=True):
    """A job, its descendants and their roll-up."""

    job: Job
    descendants: Sequence[Job]
    rollup: CompositeRollup
    truncated: bool
    """Whether some jobs were left out."""


class JobNeighbours(msgspec.Struct, frozen=True):
    """The dependencies, dependents and children of a job."""

    dependencies: Sequence[Job]
    dependents: Sequence[Job]
    children: Sequence[Job]
    truncated: bool
    """Whether some jobs were left out."""


class DagQueries:
    """Queries on the graph of jobs."""

    def __init__(self, store: Store, jobs: JobQueries) -> None:
        self._store = store
        self._jobs = jobs

    async def get(self, caller: Caller, reference: str) -> JobDag:
        """Return the sub-tree of a job, whether composite or not.

        Raises NotFound.
        """
        job = await self._jobs.get(caller, reference)
        tree = await subtree(self._store, job, most=CHILDREN_MAX)
        below = tree[:CHILDREN_MAX]
        runs = await self._find_runs((job, *below))
        flagged = [self._jobs.with_fleet_flags(each) for each in below]
        ceiling = await self._store.record(Ceiling, job.id) if job.composite else None
        total = roll_up(job, flagged if job.composite else (job,), runs, ceiling)
        return JobDag(job, flagged, total, truncated=len(tree) > len(below))

    async def find_neighbours(self, caller: Caller, job: Job) -> JobNeighbours:
        """Return the neighbours of a job that the caller may see, up to the maximum."""
        waiting = await self._store.dependents(job.id)
        before = await self._jobs.find_many(caller, job.deps[:NEIGHBOURS_MAX])
        after = await self._jobs.find_many(caller, [each.id for each in waiting[:NEIGHBOURS_MAX]])
        children = JobQuery(parent_id=job.id, oldest_first=True, limit=NEIGHBOURS_MAX + 1)
        parts = await self._jobs.find(caller, children) if job.composite else ()
        cut = max(len(job.deps), len(waiting), len(parts)) > NEIGHBOURS_MAX
        return JobNeighbours(before, after, parts[:NEIGHBOURS_MAX], cut)

    async def _find_runs(self, jobs: Sequence[Job]) -> list[Run]:
        # Run ids follow from the lease epoch, so no query per job is needed.
        ids = [run_id(job.id, epoch) for job in jobs for epoch in range(1, job.lease_epoch + 1)]
        runs: list[Run] = []
        for first in range(0, len(ids), RUNS_AT_ONCE):
            some = await self._store.records_by_key(Run, ids[first : first + RUNS_AT_ONCE])
            runs += some.values()
        return runs
