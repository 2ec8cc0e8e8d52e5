"""The unblocker: lets jobs go on as soon as what they wait for is done."""

import asyncio

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store
from gigafactory.coordinator.core.subtree import children
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.submission.submission import DEP_FAILED, reevaluate

DECIDING = FINAL | {Stage.TESTING, Stage.QUEUED}
"""Stages of a dependency that can change what its dependents may do."""
OPENING = frozenset({event_types.UNBLOCKED, event_types.PHASE_OPENED, event_types.PLANNED})
"""What happens to a composite that can let its children begin."""


class Unblocker:
    """Follows the feed; a step looks at the dependents of what has moved."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._awaited: set[str] = set()
        """The jobs that a blocked one waits for: most jobs are awaited by nobody."""
        self._moved: dict[str, int] = {}
        """With the position of the event, so that what moves again meanwhile is looked at again."""
        self._to_recheck: dict[str, None] = {}
        """Jobs that wait for what has failed already, or came back: nothing else wakes them."""
        self._opened: dict[str, None] = {}

    def notice(self, entry: FeedEntry) -> None:
        """Remember a job whose dependents must be looked at."""
        job_id = entry.event.job_id
        if entry.job is not None and entry.job.stage is Stage.BLOCKED:
            self._awaited.update(entry.job.deps)
            lost = entry.event.type == event_types.SUBMITTED and DEP_FAILED in entry.job.flags
            if lost or entry.event.type == event_types.REQUEUED:
                self._to_recheck[entry.job.id] = None
        if entry.job is not None and entry.job.composite and entry.event.type in OPENING:
            self._opened[entry.job.id] = None
        reopened = entry.event.type == event_types.REQUEUED
        if job_id in self._awaited and (reopened or entry.event.stage in DECIDING):
            self._moved[job_id] = entry.event.position

    async def step(self) -> None:
        """Look at the dependents of every job that has moved; what fails is looked at again."""
        while self._to_recheck:
            job_id = next(iter(self._to_recheck))
            await self.recheck(await self._store.job(job_id))
            self._to_recheck.pop(job_id, None)
        while self._opened:
            composite_id = next(iter(self._opened))
            waiting = await children(self._store, {composite_id}, (Stage.BLOCKED,))
            # Taken off the list before they are looked at, what is let in meanwhile is seen too.
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
        """Look at every blocked job once: for the start, when events may have gone by unseen."""
        after = None
        while page := await self._store.find_jobs(
            JobQuery(stages=(Stage.BLOCKED,), oldest_first=True, after=after, limit=PAGE_MAX)
        ):
            self._awaited.update(dep for job in page for dep in job.deps)
            await asyncio.gather(*(self.recheck(job) for job in page))
            after = page[-1].id

    async def recheck(self, job: Job | None) -> None:
        """Do for one blocked job what follows from its dependencies."""
        while job is not None:
            above = (job.parent_id,) if job.parent_id is not None else ()
            found = await self._store.jobs((*job.deps, *above))
            change = reevaluate(
                job,
                [found[dep] for dep in job.deps if dep in found],
                now=self._clock.now(),
                parent=found.get(job.parent_id or ""),
            )
            if change is None:
                return
            # Stored or not, look again: a newer job that it waits for now may be done already.
            await self._committer.commit("system:unblocker", "unblock", change)
            job = await self._store.job(job.id)
