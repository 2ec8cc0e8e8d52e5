"""The reaper: expires leases of silent factories, but not after the coordinator's own outage."""

import asyncio
from datetime import datetime, timedelta

import structlog

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job.change import LeaseExtension, RecordChange, Write
from gigafactory.domain.job.job import Job, Result
from gigafactory.domain.tenancy.leader import LeaderHeartbeat

SERVABLE_EVERY = timedelta(seconds=5)
GAP_MIN = SERVABLE_EVERY * 3
"""A longer gap between the reaper's own beats means that renewals could not be served."""
ACTOR = "system:reaper"

log = structlog.get_logger()


class Reaper:
    """The duty that ends expired leases; after a gap it extends all leases instead."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, workers: WorkerWrites
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._workers = workers

    async def step(self) -> None:
        """End every lease that expired while renewals could be served."""
        # One clock reading for everything: a clock jump or a suspended process is a gap too.
        now = self._clock.now()
        if not await self._record_beat(now):
            return
        expired = await self._store.jobs_with_expired_leases(now)
        await asyncio.gather(*(self._reap(job, now) for job in expired))

    async def _reap(self, job: Job, now: datetime) -> None:
        # A lost race is fine: the lease was renewed, reported on, or reaped by another coordinator.
        await self._committer.commit(ACTOR, "reap", *await self._end_lease(job, now))

    async def _record_beat(self, now: datetime) -> bool:
        """Record that renewals can be served; False after a gap, when leases were extended."""
        heartbeat = await self._store.record(LeaderHeartbeat, "reaper")
        if heartbeat is None:
            first = LeaderHeartbeat(duty="reaper", until=now)
            await self._committer.commit(ACTOR, "beat", RecordChange(before=None, after=first))
            return False
        gap = now - heartbeat.until
        if gap < SERVABLE_EVERY:
            return True
        after = LeaderHeartbeat(duty="reaper", until=now, rev=heartbeat.rev + 1)
        saved = RecordChange(before=heartbeat, after=after)
        if gap < GAP_MIN:
            await self._committer.commit(ACTOR, "beat", saved)
            return True
        log.warning("leases extended after a gap", gap_s=gap.total_seconds())
        await self._committer.commit(ACTOR, "extend", LeaseExtension(gap), saved)
        return False

    async def _end_lease(self, job: Job, now: datetime) -> tuple[Write, ...]:
        """Return the writes that end one expired lease of a job; others wait for the next step."""
        lease = job.lease
        if lease is not None and lease.expires_at <= now:
            change = leases.expire(job, now=now, live_instances=self._workers.live_instances(now))
            ended = await self._workers.end_run_writes(lease, Result.LOST, change.after.reason)
            return (change, *ended)
        epoch = next(ending.epoch for ending in job.ending if ending.expires_at <= now)
        return (leases.release_revoked(job, epoch, now=now, actor=ACTOR, expired=True),)
