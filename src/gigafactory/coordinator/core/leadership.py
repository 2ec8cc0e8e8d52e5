"""Who does a duty that only one coordinator may do: a lease in the store, with an epoch."""

from datetime import datetime, timedelta

import structlog

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.domain.job.change import RecordChange, RevisionGuard, Stored
from gigafactory.domain.tenancy.leader import Leader, LeaderHeartbeat

LEADER_TTL = timedelta(seconds=3)
"""Nothing is offered for so long after a leader was killed; a slow one that loses its reign to
another costs time only, for its writes are guarded by the epoch."""
RENEW_EVERY = timedelta(seconds=1)
RIVAL_CHECK_EVERY = timedelta(seconds=0.5)
"""Whoever does not lead looks so often, however often its duty is woken, whether it could."""

log = structlog.get_logger()


class Leadership:
    """One coordinator's claim to a duty; every write of the duty is guarded by its epoch."""

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
        """Stand for the duty under this name; `alone`, whoever reigned before is known to be gone.

        That is so with a store that has one owner at a time.
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
        """Until then another leads, as far as a look has shown."""

    @property
    def guard(self) -> RevisionGuard:
        """What holds only while nobody else has taken the duty over."""
        assert self._leader is not None, "only the leader guards its writes"
        return RevisionGuard("leader", self._duty, self._leader.rev)

    async def acquire(self) -> bool:
        """Whether this coordinator has the duty now: renewed, or taken from a silent one."""
        now = self._clock.now()
        if self.is_fresh(now):
            return True
        if self._rival_until is not None and now < self._rival_until:
            return False
        leader = await self._store.record(Leader, self._duty)
        beat = await self._store.record(LeaderHeartbeat, self._duty)
        mine = leader is not None and leader.holder == self._me
        rival = leader is not None and not mine and not self._exclusive
        if rival and beat is not None and now < beat.until:
            self._leader = None
            self._rival_until = min(beat.until, now + RIVAL_CHECK_EVERY)
            return False
        return await self._take(leader, beat, mine=mine)

    def is_fresh(self, now: datetime) -> bool:
        """Whether its reign needs no renewal yet; one without a possible rival never does."""
        if self._leader is None or self._beat is None:
            return False
        return self._exclusive or now < self._beat.until - LEADER_TTL + RENEW_EVERY

    def is_leader(self, now: datetime) -> bool:
        """Whether nobody else can have taken the duty over yet, as far as is known here."""
        if self._leader is None or self._beat is None:
            return False
        return self._exclusive or now < self._beat.until

    async def _take(
        self, leader: Leader | None, beat: LeaderHeartbeat | None, *, mine: bool
    ) -> bool:
        until = self._clock.now() + LEADER_TTL
        next_beat = LeaderHeartbeat(duty=self._duty, until=until, rev=beat.rev + 1 if beat else 1)
        beaten = RecordChange(before=beat, after=next_beat)
        if mine and leader is not None:
            guarded = RevisionGuard("leader", self._duty, leader.rev)
            beaten = RecordChange(before=beat, after=next_beat, guards=(guarded,))
            verdict = await self._committer.commit(self._me, "reign", beaten)
        else:
            mine_now = Leader(duty=self._duty, holder=self._me, rev=leader.rev + 1 if leader else 1)
            crowned = RecordChange(before=leader, after=mine_now)
            verdict = await self._committer.commit(self._me, "reign", crowned, beaten)
            leader = mine_now
        won = isinstance(verdict, Stored)
        if won and self._leader is None:
            log.info("leading", duty=self._duty, epoch=leader.rev)
        self._leader, self._beat = (leader, next_beat) if won else (None, None)
        return won

    async def resign(self) -> None:
        """Let another take over at once."""
        if self._leader is not None and self._beat is not None:
            gone = LeaderHeartbeat(duty=self._duty, until=self._clock.now(), rev=self._beat.rev + 1)
            await self._committer.commit(
                self._me, "resign", RecordChange(before=self._beat, after=gone)
            )
            self._leader = None
