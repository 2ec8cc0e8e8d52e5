"""The unblocker: queues blocked jobs as soon as their dependencies allow it."""

import asyncio

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store
from gigafactory.coordinator.core.subtree import children
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.submission.submission import DEP_FAILED, reevaluate

DECIDING = FINAL | {Stage.TESTING, Stage.QUEUED}
"""Stages of a dependency that can unblock or fail its dependents."""
OPENING = frozenset({event_types.UNBLOCKED, event_types.PHASE_OPENED, event_types.PLANNED})
"""Events of a composite that can unblock its children."""


class Unblocker:
    """The duty that rechecks blocked jobs when the change feed reports a relevant event."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._dependencies: set[str] = set()
        """Ids of jobs that some blocked job waits for: most jobs have no dependents."""
        self._moved: dict[str, int] = {}
        """Changed dependencies, with the feed position of the latest event on each."""
        self._to_recheck: dict[str, None] = {}
        """Blocked jobs that no further event would wake: requeued, or with a failed dependency."""
        self._opened: dict[str, None] = {}

    def notice(self, entry: FeedEntry) -> None:
        """Remember the jobs that a feed entry can unblock."""
        job_id = entry.event.job_id
        if entry.job is not None and entry.job.stage is Stage.BLOCKED:
            self._dependencies.update(entry.job.deps)
            lost = entry.event.type == event_types.SUBMITTED and DEP_FAILED in entry.job.flags
            if lost or entry.event.type == event_types.REQUEUED:
                self._to_recheck[entry.job.id] = None
        if entry.job is not None and entry.job.composite and entry.event.type in OPENING:
            self._opened[entry.job.id] = None
        reopened = entry.event.type == event_types.REQUEUED
        if job_id in self._dependencies and (reopened or entry.event.stage in DECIDING):
            self._moved[job_id] = entry.event.position

    async def step(self) -> None:
        """Recheck the dependents of every changed job; a failed recheck is repeated."""
        while self._to_recheck:
            job_id = next(iter(self._to_recheck))
            await self.recheck(await self._store.job(job_id))
            self._to_recheck.pop(job_id, None)
        while self._opened:
            composite_id = next(iter(self._opened))
            waiting = await children(self._store, {composite_id}, (Stage.BLOCKED,))
            # Removed before the rechecks, so that an event during them is not lost.
            self._opened.pop(composite_id, None)
            for first in range(0, len(waiting), PAGE_MAX):
                some = waiting[first : first + PAGE_MAX]
                await asyncio.gather(*(self.recheck(job) for job in some))
        while self._moved:
            job_id, position = next(iter(self._moved.items()))
            dependents = await self._store.dependents(job_id)
            await asyncio.gather(*(self.recheck(job) for job in dependents))
            if self._moved.get(job_id) == position:
                del self._moved[job_id]

    async def sweep(self) -> None:
        """Recheck every blocked job, at the start: events may have been missed."""
        after = None
        while page := await self._store.find_jobs(
            JobQuery(stages=(Stage.BLOCKED,), oldest_first=True, after=after, limit=PAGE_MAX)
        ):
            self._dependencies.update(dep for job in page for dep in job.deps)
            await asyncio.gather(*(self.recheck(job) for job in page))
            after = page[-1].id

    async def recheck(self, job: Job | None) -> None:
        """Unblock or fail one blocked job according to its dependencies."""
        while job is not None:
            above = (job.parent_id,) if job.parent_id is not None else ()
            related_jobs = await self._store.jobs((*job.deps, *above))
            change = reevaluate(
                job,
                [related_jobs[dep] for dep in job.deps if dep in related_jobs],
                now=self._clock.now(),
                parent=related_jobs.get(job.parent_id or ""),
            )
            if change is None:
                return
            # Look again even after a lost race: a replaced dependency may be done already.
            await self._committer.commit("system:unblocker", "unblock", change)
            job = await self._store.job(job.id)
