"""The dispatcher: the leading coordinator offers ready jobs to factories."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.dispatch.shadow_dispatcher import ShadowDispatcher
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.job import offer as offers
from gigafactory.domain.job.change import JobChange, Stored
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.lifecycle import is_ready
from gigafactory.domain.queue.ready_queue import is_excluded
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.scheduler import pick_offer

ACTOR = "system:dispatcher"
OFFERS_AT_ONCE = 200


class Dispatcher:
    """The duty that withdraws expired offers and offers each ready job to the best factory."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        leadership: Leadership,
        shadow: ShadowDispatcher,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._shadow = shadow

    async def step(self) -> None:
        """Withdraw expired offers, then offer all ready jobs; do nothing unless leading."""
        if not await self._leadership.acquire():
            return
        self._shadow.step()
        await asyncio.gather(*(self._withdraw_expired(job_id) for job_id in self._expired_offers()))
        while picks := self._pick_pairs():
            offered = await asyncio.gather(*(self._offer(pick) for pick in picks))
            await self._index.catch_up()
            # A long step may outlast the leader's lease, so renew it on the way.
            if not any(offered) or not await self._leadership.acquire():
                return

    def _expired_offers(self) -> Sequence[str]:
        return self._index.assignments.expired_offers(self._clock.now())

    async def _withdraw_expired(self, job_id: str) -> None:
        job = await self._store.job(job_id)
        now = self._clock.now()
        if job is None or job.offer is None or job.offer.expires_at > now:
            self._index.mark_stale(job_id)
            return
        change = offers.withdraw(
            job, "not accepted in time", now=now, actor=ACTOR, guards=(self._leadership.guard,)
        )
        await self._committer.commit(ACTOR, "withdraw", change)

    def _pick_pairs(self) -> list[Pick]:
        # Each pick is reserved before the next one is made, so that no two share a seat.
        picks: list[Pick] = []
        now = self._clock.now()
        while len(picks) < OFFERS_AT_ONCE and (pick := self._pick_next(now)):
            self._index.reserve(pick)
            picks.append(pick)
        return picks

    def _pick_next(self, now: datetime) -> Pick | None:
        index = self._index
        if not index.streaming_factories:
            return None
        return pick_offer(
            index.queue,
            index.fleet,
            now=now,
            only=index.streaming_factories,
            product_filter=index.dispatch_modes.push_filter,
        )

    @contextmanager
    def offer_on_submit(self, new: Job) -> Iterator[JobChange | None]:
        """Yield the offer of a job that this block submits, to be stored in the same commit.

        This saves a waiting factory one commit. Yields None when this coordinator does not lead, or
        another job is due first: `step` then offers the job later.
        """
        now = self._clock.now()
        if (
            not self._index.streaming_factories
            or not self._leadership.is_fresh(now)
            or not is_ready(new, now)
        ):
            yield None
            return
        self._index.apply_job(new)
        pick = self._pick_next(now)
        if pick is None or pick.job_id != new.id:
            self._index.remove_job(new.id)
            yield None
            return
        self._index.reserve(pick)
        with self._index.committing(new.id):
            yield self._offer_change(new, pick, now)

    async def _offer(self, pick: Pick) -> bool:
        # The offer becomes part of the job; the feed delivers it to the factory's stream.
        with self._index.committing(pick.job_id):
            job = await self._store.job(pick.job_id)
            now = self._clock.now()
            if job is None or job.offer is not None or not is_ready(job, now):
                return False
            # The pick may be older than what excludes its factory.
            if is_excluded(job, pick.factory_id, now):
                return False
            if not self._index.may_assign(pick.factory_id, job.product_id):
                return False
            change = self._offer_change(job, pick, now)
            verdict = await self._committer.commit(ACTOR, "offer", change)
            if isinstance(verdict, Stored):
                self._index.apply_own_commit(verdict.position, change)
                return True
            return False

    def _offer_change(self, job: Job, pick: Pick, now: datetime) -> JobChange:
        return offers.offer(
            job,
            pick.factory_id,
            pick.engine,
            now=now,
            decision=pick.decision.to_json(),
            guards=(
                self._leadership.guard,
                *self._index.guards(pick.factory_id, job.product_id),
            ),
            actor=ACTOR,
        )
