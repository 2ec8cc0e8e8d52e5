"""The preemptor: asks a less urgent running job to hand back its seat to an urgent one."""

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

ACTOR = "system:evictor"
AT_ONCE = 100


class Preemptor:
    """The duty that requests a preemption for each urgent job without a free seat."""

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
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._urgent = urgent

    async def step(self) -> None:
        """Request all preemptions that are due; do nothing unless this coordinator leads."""
        for _ in range(AT_ONCE):
            # The dispatcher renews the leadership and may lose it while this step waits: take the
            # guard right after the check.
            if not self._leadership.is_leader(self._clock.now()):
                return
            guard, preemption = self._leadership.guard, self._pick_next()
            if preemption is None:
                return
            # After a lost commit, the next step decides again with a newer index.
            if not await self._preempt(preemption, guard):
                return

    def _pick_next(self) -> PreemptionPick | None:
        index = self._index
        return pick_preemption(index.queue, index.fleet, now=self._clock.now(), urgent=self._urgent)

    async def _preempt(self, preemption: PreemptionPick, guard: RevisionGuard) -> bool:
        jobs = await self._store.jobs([preemption.job_id, preemption.victim_id])
        job, victim = jobs.get(preemption.job_id), jobs.get(preemption.victim_id)
        now = self._clock.now()
        waits = job is not None and is_ready(job, now) and job.offer is None
        if job is None or victim is None or not waits or not may_preempt(victim, job.priority.rank):
            self._index.mark_stale(preemption.job_id)
            self._index.mark_stale(preemption.victim_id)
            return False
        changes = preempt_for(victim, job, actor=ACTOR, now=now, guards=(guard,))
        verdict = await self._committer.commit(ACTOR, "evict", *changes)
        if not isinstance(verdict, Stored):
            return False
        self._index.apply_own_commit(verdict.position, *changes)
        return True
