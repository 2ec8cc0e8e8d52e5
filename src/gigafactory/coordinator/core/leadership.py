"""Leader election for duties that only one coordinator may do: a lease in the store."""

from datetime import datetime, timedelta

import structlog

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.domain.job.change import RecordChange, RevisionGuard, Stored
from gigafactory.domain.tenancy.leader import Leader, LeaderHeartbeat

LEADER_TTL = timedelta(seconds=3)
"""How long the lease lasts unrenewed: no offers are made for so long after a leader is killed.

A leader that is slower than this loses the lease, and nothing else: its writes are guarded."""
RENEW_EVERY = timedelta(seconds=1)
RIVAL_CHECK_EVERY = timedelta(seconds=0.5)
"""How often a coordinator that does not lead checks whether it can take over."""

log = structlog.get_logger()


class Leadership:
    """One coordinator's candidacy for a duty; `guard` protects every write of the duty."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        *,
        duty: str,
        me: str,
        exclusive: bool = False,
    ) -> None:
        """Stand for `duty` as `me`.

        `exclusive`: the store has one owner at a time, so a previous leader must be gone.
        """
        self._store = store
        self._committer = committer
        self._clock = clock
        self._duty = duty
        self._me = me
        self._exclusive = exclusive
        self._leader: Leader | None = None
        self._beat: LeaderHeartbeat | None = None
        self._rival_until: datetime | None = None
        """Do not check for another leader before this time."""

    @property
    def guard(self) -> RevisionGuard:
        """The guard that fails once another coordinator has taken over the duty."""
        assert self._leader is not None, "only the leader guards its writes"
        return RevisionGuard("leader", self._duty, self._leader.rev)

    async def acquire(self) -> bool:
        """Renew the lease, or take it over if it has expired; return whether this one leads."""
        now = self._clock.now()
        if self.is_fresh(now):
            return True
        if self._rival_until is not None and now < self._rival_until:
            return False
        leader = await self._store.record(Leader, self._duty)
        heartbeat = await self._store.record(LeaderHeartbeat, self._duty)
        is_ours = leader is not None and leader.holder == self._me
        rival = leader is not None and not is_ours and not self._exclusive
        if rival and heartbeat is not None and now < heartbeat.until:
            self._leader = None
            self._rival_until = min(heartbeat.until, now + RIVAL_CHECK_EVERY)
            return False
        return await self._take(leader, heartbeat, is_ours=is_ours)

    def is_fresh(self, now: datetime) -> bool:
        """Return whether the lease is held and needs no renewal yet."""
        if self._leader is None or self._beat is None:
            return False
        return self._exclusive or now < self._beat.until - LEADER_TTL + RENEW_EVERY

    def is_leader(self, now: datetime) -> bool:
        """Return whether the lease is held and has not expired."""
        if self._leader is None or self._beat is None:
            return False
        return self._exclusive or now < self._beat.until

    async def _take(
        self, leader: Leader | None, heartbeat: LeaderHeartbeat | None, *, is_ours: bool
    ) -> bool:
        until = self._clock.now() + LEADER_TTL
        next_beat = LeaderHeartbeat(
            duty=self._duty, until=until, rev=heartbeat.rev + 1 if heartbeat else 1
        )
        heartbeat_change = RecordChange(before=heartbeat, after=next_beat)
        if is_ours and leader is not None:
            guarded = RevisionGuard("leader", self._duty, leader.rev)
            heartbeat_change = RecordChange(before=heartbeat, after=next_beat, guards=(guarded,))
            verdict = await self._committer.commit(self._me, "reign", heartbeat_change)
        else:
            mine_now = Leader(duty=self._duty, holder=self._me, rev=leader.rev + 1 if leader else 1)
            leader_change = RecordChange(before=leader, after=mine_now)
            verdict = await self._committer.commit(
                self._me, "reign", leader_change, heartbeat_change
            )
            leader = mine_now
        won = isinstance(verdict, Stored)
        if won and self._leader is None:
            log.info("leading", duty=self._duty, epoch=leader.rev)
        self._leader, self._beat = (leader, next_beat) if won else (None, None)
        return won

    async def resign(self) -> None:
        """Give up the lease, so that another coordinator can take over at once."""
        if self._leader is not None and self._beat is not None:
            ended = LeaderHeartbeat(
                duty=self._duty, until=self._clock.now(), rev=self._beat.rev + 1
            )
            await self._committer.commit(
                self._me, "resign", RecordChange(before=self._beat, after=ended)
            )
            self._leader = None
