"""The duty that advances composites when their children change."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store
from gigafactory.coordinator.core.subtree import children
from gigafactory.coordinator.fleet.stop_running import TREASURER, StopRequests
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.composite.composite import (
    ACTOR,
    PHASE_WAITING,
    UNSTARTED,
    advance,
    blocks_composite,
    close,
)
from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry, Write
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.job.operator_actions import cancel

KEY = "composite/"
STARTED = tuple(stage for stage in Stage if stage not in UNSTARTED)
UNSHIPPED = tuple(stage for stage in Stage if stage is not Stage.SHIPPED)
UNFINISHED = tuple(stage for stage in Stage if stage not in FINAL)
TELLING = frozenset(
    {event_types.ASSIGNED, event_types.SHIP_FAILED, event_types.RELEASED, event_types.LEASE_EXPIRED}
)
"""Events of a child, besides its end, that can advance its composite."""
TOGETHER = 50


class CompositeAdvancer:
    """Follows the change feed; a step advances the composites of changed jobs.

    Decisions are made from stored state and written against the revision that was read, so
    several coordinators can run this duty at the same time.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        workers: WorkerWrites,
        stops: StopRequests,
    ) -> None:
        self._stops = stops
        self._store = store
        self._committer = committer
        self._clock = clock
        self._workers = workers
        self._moved: dict[str, int] = {}
        """Composites to look at, with the feed position of the latest event on each."""
        self.awaiting_approval: set[str] = set()
        """Ids of composites with a phase that waits for approval."""
        self.over_budget: dict[str, datetime] = {}
        """Ids of unfinished composites whose budget is exhausted, and since when."""

    def notice(self, entry: FeedEntry) -> None:
        """Remember the composites that a feed entry affects."""
        job, event = entry.job, entry.event
        if job is None:
            return
        if job.composite:
            self._moved[job.id] = event.position
            awaits_approval = PHASE_WAITING in job.flags and not job.finished
            (self.awaiting_approval.add if awaits_approval else self.awaiting_approval.discard)(
                job.id
            )
            if job.finished or not job.over_budget:
                self.over_budget.pop(job.id, None)
            else:
                self.over_budget.setdefault(job.id, event.at)
        # A nested composite is never assigned; it reports `started` instead.
        matters = event.type in TELLING or (job.composite and event.type == event_types.STARTED)
        if job.parent_id is not None and (event.stage in FINAL or matters):
            self._moved[job.parent_id] = event.position

    async def load(self) -> None:
        """Look at every unfinished composite: events may have been missed before the start."""
        held = await self._store.keys_with_prefix(KEY)
        composites = await self._store.jobs(set(held.values()))
        self.awaiting_approval = {
            job.id for job in composites.values() if PHASE_WAITING in job.flags
        }
        over_budget = [job for job in composites.values() if job.over_budget and not job.finished]
        ceilings_by_key = await self._store.records_by_key(
            Ceiling, {key for job in over_budget for key in job.ceilings}
        )
        self.over_budget = {job.id: _exhausted_since(job, ceilings_by_key) for job in over_budget}
        self._moved |= dict.fromkeys(composites, 0)
        await self.step()

    async def step(self) -> None:
        """Advance every composite that changed or whose children changed."""
        while self._moved:
            job_id, position = next(iter(self._moved.items()))
            await self.advance(await self._store.job(job_id))
            if self._moved.get(job_id) == position:
                del self._moved[job_id]

    async def advance(self, job: Job | None) -> None:
        """Advance one composite according to its children."""
        while job is not None and job.composite:
            if job.finished:
                await self._end_children(job)
                return
            if job.over_budget:
                await self._stops.send_to_children(
                    TREASURER, job, f"the budget of {job.name} is spent"
                )
            started = job.stage is Stage.QUEUED and await self._has_children_in(job, STARTED)
            unshipped = await self._unshipped(job) if job.stage is Stage.BUILDING else ()
            change = advance(job, unshipped, started=started, now=self._clock.now())
            if change is None:
                return
            # Look again even after a lost race: the next step may be due already.
            await self._committer.commit(ACTOR, "advance", change)
            job = await self._store.job(job.id)

    async def _has_children_in(self, composite: Job, stages: tuple[Stage, ...]) -> bool:
        query = JobQuery(parent_id=composite.id, stages=stages, limit=1)
        return bool(await self._store.find_jobs(query))

    async def _unshipped(self, composite: Job) -> Sequence[Job]:
        """Return the unshipped children, reading only until one blocks progress."""
        jobs: list[Job] = []
        query = JobQuery(
            parent_id=composite.id, stages=UNSHIPPED, oldest_first=True, limit=TOGETHER
        )
        while page := await self._store.find_jobs(query):
            jobs += page
            if any(blocks_composite(composite, child) for child in page):
                break
            query = replace(query, after=page[-1].id, limit=PAGE_MAX)
        return jobs

    async def _end_children(self, composite: Job) -> None:
        """Cancel unfinished children of a composite that ended without shipping."""
        if composite.stage is Stage.SHIPPED or not await self._store.keys_with_prefix(
            f"{KEY}{composite.id}"
        ):
            return
        unfinished = await children(self._store, {composite.id}, UNFINISHED)
        for first in range(0, len(unfinished), TOGETHER):
            some = unfinished[first : first + TOGETHER]
            await asyncio.gather(*(self._cancel(child, composite) for child in some))
        if not await self._has_children_in(composite, UNFINISHED):
            await self._committer.commit(
                ACTOR, "children-ended", close(composite, now=self._clock.now())
            )

    async def _cancel(self, child: Job | None, composite: Job) -> None:
        """Cancel one child; one that is being shipped is looked at again afterwards."""
        while child is not None and not child.finished:
            reason = f"its composite {composite.name} was {composite.stage}"
            try:
                change = cancel(child, ACTOR, reason, now=self._clock.now())
            except IllegalTransition:
                return
            ended: Sequence[Write] = ()
            if child.lease is not None:
                result = change.after.result
                assert result is not None, "a cancelled job has a result"
                ended = await self._workers.end_run_writes(child.lease, result, reason)
            await self._committer.commit(ACTOR, "cancel", change, *ended)
            child = await self._store.job(child.id)


def _exhausted_since(composite: Job, ceilings: Mapping[str, Ceiling]) -> datetime:
    """Return since when the budget of a composite, or of one above it, is exhausted."""
    reached = (ceilings[key].reached_at for key in composite.ceilings if key in ceilings)
    return min((at for at in reached if at is not None), default=composite.created_at)
