"""Leases: claim, accept, decline, renew and release; of many claimers exactly one gets a job."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from weakref import WeakValueDictionary

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.core.recent_keys import RecentKeys
from gigafactory.coordinator.dispatch.grants import Grant, GrantRequest, Grants
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.index.seat_reservation import SeatReservation
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import BudgetPaused, Halted, OfferGone
from gigafactory.domain.fleet.factory import Factory, require_only_instance
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job.job import Job, Result, Step
from gigafactory.domain.job.offer import require_offer, withdraw
from gigafactory.domain.job.run_outcome import NO_PROGRESS, fail
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.scheduler import pick_jobs
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.limits import CLAIM_WAIT_MAX_S, GRANTS_MAX

ACCEPT_TRIES_MAX = 5
"""Tries to accept an offer: each one sees what the last lost; a lock can be held for hours."""
EMPTY_ANSWER_TTL = timedelta(minutes=10)
EMPTY_ANSWERS_MAX = 20_000
RECHECK_S = 1.0
"""How often a waiting claim checks again: back-offs and exclusions end without an event."""


class Claims:
    """The calls by which a factory gets, keeps and returns jobs."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        workers: WorkerWrites,
        *,
        lease_ttl: timedelta,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._workers = workers
        self._grants = Grants(store, committer, clock, index, workers, lease_ttl=lease_ttl)
        self._ttl = lease_ttl
        self._empty_answers = RecentKeys(clock, kept_for=EMPTY_ANSWER_TTL, most=EMPTY_ANSWERS_MAX)
        """Claims that got nothing: a repetition must get nothing too, and costs no write."""
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By factory and key, a lock for claims that are repeated while the first still waits."""

    async def claim(
        self,
        caller: Caller,
        factory_id: str,
        *,
        instance_id: str | None = None,
        wait_s: float = 0.0,
        most: int = 1,
    ) -> Sequence[Grant]:
        """Lease up to `most` of the best jobs for this factory, waiting up to `wait_s` for one.

        The leases belong to `instance_id`, or else to the instance that sent the last heartbeat.
        A halted fleet grants nothing. Raises Forbidden for another factory's id,
        TwinFactory for an instance that was replaced.
        """
        factory = await self._workers.require_factory(caller, factory_id)
        self._require_not_replaced(factory, instance_id)
        if caller.request_key is None:
            return await self._claim(caller, factory, instance_id, wait_s, most)
        key = (factory_id, caller.request_key)
        async with self._turns.setdefault(key, asyncio.Lock()):
            if self._empty_answers.contains(key):
                return []
            grants = await self._claim(caller, factory, instance_id, wait_s, most)
            if not grants:
                self._empty_answers.add(key)
            return grants

    async def _claim(
        self, caller: Caller, factory: Factory, instance_id: str | None, wait_s: float, most: int
    ) -> Sequence[Grant]:
        if earlier := await self._earlier_grants(caller, factory.id):
            return earlier
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(wait_s, CLAIM_WAIT_MAX_S)
        while True:
            await self._index.catch_up()
            picks = self._pick_jobs(factory, min(most, GRANTS_MAX))
            results = await self._grants.grant_picks(
                caller, picks, instance_id or factory.instance_id
            )
            if None in results and (earlier := await self._earlier_grants(caller, factory.id)):
                return earlier
            grants = [grant for grant in results if grant is not None]
            if grants:
                return grants
            if not picks and loop.time() >= deadline:
                return []
            if not picks:
                await self._wait_for_update(min(RECHECK_S, deadline - loop.time()))
            factory = await self._workers.require_factory(caller, factory.id)

    def _require_not_replaced(self, factory: Factory, instance_id: str | None) -> None:
        if instance_id is not None:
            now = self._clock.now()
            require_only_instance(factory, instance_id, None, vitals=None, now=now)

    async def _earlier_grants(self, caller: Caller, factory_id: str) -> Sequence[Grant]:
        # The same request may have been granted before, or concurrently by another coordinator.
        return await self._committer.recorded_answers(
            caller, "claim", factory_id, Grant, most=GRANTS_MAX
        )

    def _pick_jobs(self, factory: Factory, most: int) -> list[Pick]:
        # Each pick is reserved at once, so that concurrent claims pick other jobs.
        queue, fleet, now = self._index.queue, self._index.fleet, self._clock.now()
        picks: list[Pick] = []
        for pick in islice(pick_jobs(queue, fleet, factory.id, now=now), most):
            self._index.reserve(pick)
            picks.append(pick)
        return picks

    async def _wait_for_update(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(max(wait_s, 0.0)):
                await self._index.wait_for_update()
        except TimeoutError:
            return

    async def accept(
        self,
        caller: Caller,
        factory_id: str,
        job_id: str,
        offer_id: str,
        *,
        instance_id: str | None = None,
    ) -> Grant:
        """Accept a standing offer: lease the job.

        Raises OfferGone, Forbidden, NotFound, Halted, BudgetPaused, TwinFactory.
        """
        for _ in range(ACCEPT_TRIES_MAX):
            await self._index.catch_up()
            factory = await self._workers.require_factory(caller, factory_id)
            self._require_not_replaced(factory, instance_id)
            if earlier := await self._earlier_grants(caller, factory_id):
                return earlier[0]
            job = await self._workers.require_job(caller, job_id)
            specs = await self._store.specs([job_id])
            parent = (await self._grants.parents_of([job])).get(job.parent_id or "")
            offer = require_offer(job, factory_id, offer_id)
            if parent is not None and parent.finished:
                raise OfferGone(
                    f"composite {parent.id} of this job is {parent.stage}; decline the offer"
                )
            if parent is not None and parent.over_budget and offer.step is Step.RUN:
                raise BudgetPaused(
                    f"the budget of composite {parent.id} is spent; decline the offer"
                )
            if paused := self._index.fleet.budget_stops.get(job.product_id):
                raise BudgetPaused(f"{paused}; no jobs are granted until it is resumed")
            if halted := self._index.fleet.stop_reason(job.product_id):
                raise Halted(f"{halted}; no jobs are granted until it is resumed")
            if not self._index.may_assign(factory_id, job.product_id):
                raise OfferGone(
                    f"factory {factory_id} is draining and takes no new jobs; decline the offer"
                )
            keys = self._index.fleet.seat_keys(factory_id, offer.engine)
            if keys is None:
                raise OfferGone(
                    f"factory {factory_id} has no free seat left for this job; decline the offer"
                )
            seat = SeatReservation(
                job_id=job_id,
                factory_id=factory_id,
                engine=offer.engine,
                seats=keys,
                decision=offer.decision,
            )
            self._index.reserve(seat)
            instance = instance_id or factory.instance_id
            request = GrantRequest(job, specs[job_id], seat, instance, parent=parent)
            with self._index.committing(job_id):
                grant = await self._grants.grant(caller, request)
            if grant is not None:
                return grant
        raise OfferGone("another job has taken the lock or the seat; wait for the next offer")

    async def decline(
        self, caller: Caller, factory_id: str, job_id: str, offer_id: str, reason: str
    ) -> Job:
        """Decline an offer: the job is offered to the next best factory.

        Raises OfferGone, Forbidden.
        """
        await self._workers.require_factory(caller, factory_id)

        async def decide() -> Plan[Job]:
            job = await self._workers.require_job(caller, job_id)
            require_offer(job, factory_id, offer_id)
            change = withdraw(job, reason or "declined", now=self._clock.now(), actor=caller.actor)
            return Plan(change.after, (change,))

        return await self._committer.execute(
            caller, "decline", decide, Job, request=(job_id, offer_id)
        )

    async def renew(self, caller: Caller, job_id: str, epoch: int) -> datetime:
        """Extend a lease, even an expired one that the reaper has not ended yet.

        Raises Fenced.
        """

        async def decide() -> Plan[datetime]:
            job = await self._workers.require_job(caller, job_id)
            now, factory_id = self._clock.now(), caller.factory_id or ""
            renewal = leases.renew(job, factory_id, epoch, now=now, ttl=self._ttl)
            until = renewal.expires_at
            return Plan(until, (renewal,), answer_until=until)

        async with self._workers.fenced(caller, job_id, epoch):
            return await self._committer.execute(
                caller, "renew", decide, datetime, request=(job_id, epoch), epoch=epoch
            )

    async def release(self, caller: Caller, job_id: str, epoch: int, reason: str) -> Job:
        """Return a job unfinished, or confirm that work under a revoked lease has stopped.

        Raises Fenced.
        """
        factory_id = caller.factory_id or ""

        async def decide() -> Plan[Job]:
            job = await self._workers.require_job(caller, job_id)
            now = self._clock.now()
            if any(e.epoch == epoch and e.factory_id == factory_id for e in job.ending):
                change = leases.release_revoked(job, epoch, now=now, actor=caller.actor)
                return Plan(change.after, (change,))
            lease = leases.require_lease(job, factory_id, epoch)
            result = Result.PREEMPTED if job.preemption else Result.RELEASED
            change = fail(job, factory_id, epoch, result, reason, NO_PROGRESS, now=now)
            ended = await self._workers.end_run_writes(lease, result, reason)
            return Plan(change.after, (change, *ended))

        async with self._workers.fenced(caller, job_id, epoch):
            return await self._committer.execute(
                caller, "release", decide, Job, request=(job_id, epoch), epoch=epoch
            )
