"""The evictor: where an urgent job finds no free seat, a less urgent one is asked to make way."""

from collections.abc import Set as AbstractSet

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.fleet.running_jobs import may_preempt
from gigafactory.domain.job.change import RevisionGuard, Stored
from gigafactory.domain.job.job import Priority
from gigafactory.domain.job.lifecycle import is_ready
from gigafactory.domain.scheduler.preemption import PreemptionPick, pick_preemption, preempt_for

WHO = "system:evictor"
AT_ONCE = 100


class Preemptor:
    """One step: ask as many to make way as urgent jobs lack a seat."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        leadership: Leadership,
        *,
        urgent: AbstractSet[Priority],
    ) -> None:
        """Evict for jobs of these priorities, while leading."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._urgent = urgent

    async def step(self) -> None:
        """Ask whoever must make way; does nothing unless this coordinator leads."""
        for _ in range(AT_ONCE):
            # The reign is the dispatcher's: it renews it, and may find out that it is over while
            # this step waits, so the guard is taken at once.
            if not self._leadership.is_leader(self._clock.now()):
                return
            guard, eviction = self._leadership.guard, self._pick_next()
            if eviction is None:
                return
            # A step that lost a race looks again at the next one, with what the feed says then.
            if not await self._preempt(eviction, guard):
                return

    def _pick_next(self) -> PreemptionPick | None:
        index = self._index
        return pick_preemption(index.queue, index.fleet, now=self._clock.now(), urgent=self._urgent)

    async def _preempt(self, eviction: PreemptionPick, guard: RevisionGuard) -> bool:
        jobs = await self._store.jobs([eviction.job_id, eviction.victim_id])
        job, victim = jobs.get(eviction.job_id), jobs.get(eviction.victim_id)
        now = self._clock.now()
        waits = job is not None and is_ready(job, now) and job.offer is None
        if job is None or victim is None or not waits or not may_preempt(victim, job.priority.rank):
            self._index.mark_stale(eviction.job_id)
            self._index.mark_stale(eviction.victim_id)
            return False
        changes = preempt_for(victim, job, actor=WHO, now=now, guards=(guard,))
        verdict = await self._committer.commit(WHO, "evict", *changes)
        if not isinstance(verdict, Stored):
            return False
        asked, first = changes
        self._index.apply_own_commit(asked.after, verdict.position - len(first.events))
        self._index.apply_own_commit(first.after, verdict.position)
        return True
