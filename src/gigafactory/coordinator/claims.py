"""Leases: claim, accept, renew, release. Of any number of claimers exactly one gets a job."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from gigafactory.coordinator.grants import Grant, Granting, Wish
from gigafactory.coordinator.index import Index, Seat
from gigafactory.coordinator.ledger import Ledger, Plan
from gigafactory.coordinator.ports import Clock, Store
from gigafactory.coordinator.purses import Purse
from gigafactory.coordinator.workers import Workers
from gigafactory.domain import lease as leases
from gigafactory.domain.access import Caller
from gigafactory.domain.change import Guard, Held, Moved, Saved, Stored, Unmoved, Verdict
from gigafactory.domain.decision import Pick
from gigafactory.domain.errors import BudgetPaused, Fenced, Halted, OfferGone
from gigafactory.domain.factory import Factory
from gigafactory.domain.job import Job, Result
from gigafactory.domain.moves import has_turn
from gigafactory.domain.offer import require_offer, withdraw
from gigafactory.domain.outcome import NOTHING, fail
from gigafactory.domain.product import FLEET
from gigafactory.domain.run import begin
from gigafactory.domain.scheduler import pick_jobs

WAIT_MAX_S = 30.0
GRANTS_MAX = 100
TOGETHER_TRIES_MAX = 3
"""Whoever claims elsewhere at the same moment takes the same jobs: what is left is tried again."""
ACCEPT_TRIES_MAX = 5
"""What a lost race leaves in doubt is known at the next try; a lock may be held for hours."""
BUDGET_TRIES_MAX = 20
"""All work of a product that has a budget writes it: another try then wins."""
LOOK_AGAIN_S = 1.0
"""A waiting claim looks again after so long: back-offs and exclusions end without an event."""


class Claims:
    """The verbs by which a factory gets, keeps and gives back work."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        clock: Clock,
        index: Index,
        workers: Workers,
        *,
        lease_ttl: timedelta,
    ) -> None:
        """Lease jobs of this store for so long at a time."""
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._index = index
        self._workers = workers
        self._ttl = lease_ttl

    async def claim(
        self,
        caller: Caller,
        factory_id: str,
        *,
        instance_id: str | None = None,
        wait_s: float = 0.0,
        most: int = 1,
    ) -> Sequence[Grant]:
        """Lease this factory the best jobs that it can run; none when there are none for `wait_s`.

        The lease is that of the instance named, or of the one that sent the last heartbeat. A
        halted fleet simply has nothing. Raises Forbidden for another's factory.
        """
        factory = await self._workers.require(caller, factory_id)
        if known := await self._known(caller, factory_id):
            return known
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(wait_s, WAIT_MAX_S)
        while True:
            await self._index.follow()
            picks = self._picks(factory, min(most, GRANTS_MAX))
            results = await self._granted(caller, picks, instance_id or factory.instance_id)
            if None in results and (known := await self._known(caller, factory_id)):
                return known
            grants = [grant for grant in results if grant is not None]
            if grants or (not picks and loop.time() >= deadline):
                return grants
            if not picks:
                await self._news(min(LOOK_AGAIN_S, deadline - loop.time()))
            factory = await self._workers.require(caller, factory_id)

    async def _known(self, caller: Caller, factory_id: str) -> Sequence[Grant]:
        """What this very request was granted before, or at the same moment elsewhere."""
        return await self._ledger.repeated(caller, "claim", factory_id, Grant)

    def _picks(self, factory: Factory, most: int) -> list[Pick]:
        """Choose, and reserve at once, so that claimers at the same moment choose other jobs."""
        queue, fleet, now = self._index.queue, self._index.fleet, self._clock.now()
        picks: list[Pick] = []
        for pick in islice(pick_jobs(queue, fleet, factory.id, now=now), most):
            self._index.reserve(pick)
            picks.append(pick)
        return picks

    async def _news(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(max(wait_s, 0.0)):
                await self._index.changed()
        except TimeoutError:
            return

    async def _granted(
        self, caller: Caller, picks: Sequence[Pick], instance_id: str
    ) -> Sequence[Grant | None]:
        """The grant of each pick; None where another was quicker."""
        ids = [pick.job_id for pick in picks]
        with self._index.settling(*ids):
            jobs = await self._store.jobs(ids) if ids else {}
            specs = await self._store.specs(jobs) if jobs else {}
            parents = await self._parents(jobs.values())
            wishes = [
                Wish(job, specs[job.id], pick, instance_id, n, parents.get(job.parent_id or ""))
                for n, pick in enumerate(picks)
                if (job := jobs.get(pick.job_id)) is not None
            ]
            wishes = [wish for wish in wishes if self._still_there(wish)]
            for _ in range(TOGETHER_TRIES_MAX):
                if len(wishes) < 2:  # noqa: PLR2004 - one alone is not together
                    break
                if grants := await self._grant_together(caller, wishes):
                    return grants
                wishes = await self._unmoved(wishes)
            return await _all([self._try(caller, wish) for wish in wishes])

    async def _parents(self, jobs: Iterable[Job]) -> Mapping[str, Job]:
        ids = {job.parent_id for job in jobs if job.parent_id is not None}
        return await self._store.jobs(ids) if ids else {}

    async def _unmoved(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Those whose jobs are as they were read: the others went to somebody quicker.

        Their composites are read anew: one goes on with the first of its children.
        """
        found = await self._store.jobs([wish.job.id for wish in wishes])
        parents = await self._parents(found.values())
        return [
            wish._replace(parent=parents.get(wish.job.parent_id or ""))
            for wish in wishes
            if found.get(wish.job.id) == wish.job
        ]

    async def _grant_together(self, caller: Caller, wishes: Sequence[Wish]) -> Sequence[Grant]:
        """All of them in one commit; none when something of it has moved: then each for itself."""
        if not all(map(self._still_there, wishes)):
            return ()
        purse = self._workers.purses.open()
        plans = [plan for wish in wishes if (plan := self._affordable(caller, wish, purse))]
        if not plans:
            return ()
        guards = tuple({guard: None for plan in plans for guard in plan.change.guards})
        first, *others = (plan.change for plan in plans)
        changes = (replace(first, guards=guards), *(replace(c, guards=()) for c in others))
        kept = (*(write for plan in plans for write in plan.kept), *purse.writes)
        verdict = await self._ledger.commit(caller.actor, "grant", *changes, *kept)
        if not isinstance(verdict, Stored):
            return ()
        self._workers.purses.stored(purse.writes)
        position = verdict.position - sum(len(change.events) for change in changes)
        for change in changes:
            position += len(change.events)
            self._index.put_ahead(change.after, position)
        return [plan.grant for plan in plans]

    async def _try(self, caller: Caller, wish: Wish) -> Grant | None:
        """The grant of one pick, if it is still there to be had, and can be paid for."""
        try:
            return await self._grant(caller, wish)
        except BudgetPaused:
            return None

    def _still_there(self, wish: Wish) -> bool:
        if wish.parent is not None and wish.parent.finished:
            # Its children are no candidates, whether the feed has told of its end or not.
            self._index.put(wish.parent)
            return False
        turn = has_turn(wish.job, self._clock.now())
        return turn and self._index.open_to(wish.seat.factory_id, wish.job.product_id)

    async def _grant(self, caller: Caller, wish: Wish) -> Grant | None:
        """Lease the job on this seat; None when it, the seat or the factory has moved on.

        Raises BudgetPaused.
        """
        turn: AbstractAsyncContextManager[None] = nullcontext()
        for _ in range(BUDGET_TRIES_MAX):
            async with turn:
                if not self._still_there(wish):
                    return None
                purse = self._workers.purses.open()
                plan = self._plan(caller, wish, purse)
                verdict = await self._ledger.commit(
                    caller.actor,
                    "grant",
                    plan.change,
                    *plan.kept,
                    *purse.writes,
                    epoch=plan.grant.lease.epoch,
                )
            if isinstance(verdict, Stored):
                self._workers.purses.stored(purse.writes)
                self._index.put_ahead(plan.change.after, verdict.position)
                return plan.grant
            await self._learn(caller, wish.seat.factory_id, verdict)
            if not verdict.key.startswith("budget/"):
                return None
            turn = self._ledger.turn(verdict.key)
        return None

    def _affordable(self, caller: Caller, wish: Wish, purse: Purse) -> Granting | None:
        try:
            return self._plan(caller, wish, purse)
        except BudgetPaused:
            return None

    def _plan(self, caller: Caller, wish: Wish, purse: Purse) -> Granting:
        """What to commit, from how everything is known to be at this moment.

        Raises BudgetPaused.
        """
        job, seat = wish.job, wish.seat
        reserved, funded = purse.reserve(job)
        decision = seat.decision.builtins() if isinstance(seat, Pick) else seat.decision
        change = leases.grant(
            job,
            seat.factory_id,
            wish.instance_id,
            seat.engine,
            now=self._clock.now(),
            ttl=self._ttl,
            seats=seat.seats,
            decision=decision,
            guards=(*self._guards(caller, wish), *funded),
        )
        lease = change.after.lease
        assert lease is not None, "a grant makes a lease"
        spec = wish.spec
        grant = Grant(
            job=change.after,
            lease=lease,
            manifest=spec.manifest,
            body=spec.body,
            protected_paths=self._index.fleet.product(job.product_id).protected_paths,
        )
        run = Saved(before=None, after=begin(change.after, decision, reserved=reserved))
        # A request that comes twice at once gets each place in its answer once.
        kept = self._ledger.part(caller, "claim", seat.factory_id, f"{wish.number:03}", grant)
        return Granting(grant, change, (run, *kept))

    def _guards(self, caller: Caller, wish: Wish) -> tuple[Guard, ...]:
        """A grant stands only while switches, factory, token and composite are as they were."""
        token, parent = caller.token, wish.parent
        job, factory_id = wish.job, wish.seat.factory_id
        return (
            Unmoved("switch", FLEET, self._index.switch_rev(FLEET)),
            Unmoved("switch", job.product_id, self._index.switch_rev(job.product_id)),
            Unmoved("factory", factory_id, self._index.factories[factory_id].rev),
            *([Unmoved("token", token.key, token.rev)] if token else []),
            *([Unmoved("job", parent.id, parent.rev)] if parent else []),
        )

    async def _learn(self, caller: Caller, factory_id: str, verdict: Verdict) -> None:
        """After a lost race, see for ourselves what the feed has not told yet.

        Raises Unauthenticated when the token has ended: no other try could win.
        """
        match verdict:
            case Held(by=by):
                self._index.doubt(by)
            case Moved(key=key) if key.startswith("token/"):
                await self._ledger.still_good(caller)
            case Moved(key=key) if key.startswith("factory/"):
                await self._index.refresh_factory(factory_id)
            case Moved(key=key) if key.startswith("switch/"):
                await self._index.refresh_switches()
            case _:
                # The job itself: it is looked at again when its reservation ends.
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
        """Turn a standing offer into a lease.

        Raises OfferGone, Forbidden, NotFound, Halted, BudgetPaused.
        """
        for _ in range(ACCEPT_TRIES_MAX):
            await self._index.follow()
            factory = await self._workers.require(caller, factory_id)
            if known := await self._known(caller, factory_id):
                return known[0]
            job = await self._workers.job(caller, job_id)
            specs = await self._store.specs([job_id])
            parent = (await self._parents([job])).get(job.parent_id or "")
            offer = require_offer(job, factory_id, offer_id)
            if parent is not None and parent.finished:
                raise OfferGone(f"its composite {parent.id} is {parent.stage}; decline it")
            if paused := self._index.fleet.paused.get(job.product_id):
                raise BudgetPaused(f"{paused}; nothing is granted until it is resumed")
            if halted := self._index.fleet.stopped(job.product_id):
                raise Halted(f"{halted}; nothing is granted until it is resumed")
            if not self._index.open_to(factory_id, job.product_id):
                raise OfferGone(f"{factory_id} is draining, and takes nothing new; decline it")
            keys = self._index.fleet.seats(factory_id, offer.engine)
            if keys is None:
                raise OfferGone(f"{factory_id} has no free seat for this job any more; decline it")
            seat = Seat(
                job_id=job_id,
                factory_id=factory_id,
                engine=offer.engine,
                seats=keys,
                decision=offer.decision,
            )
            self._index.reserve(seat)
            instance = instance_id or factory.instance_id
            wish = Wish(job, specs[job_id], seat, instance, parent=parent)
            with self._index.settling(job_id):
                grant = await self._grant(caller, wish)
            if grant is not None:
                return grant
        raise OfferGone("another job has the lock or the seat by now; wait for the next offer")

    async def decline(
        self, caller: Caller, factory_id: str, job_id: str, offer_id: str, reason: str
    ) -> Job:
        """Turn an offer down: the next best is asked, and this factory not for a while.

        Raises OfferGone, Forbidden.
        """
        await self._workers.require(caller, factory_id)

        async def decide() -> Plan[Job]:
            job = await self._workers.job(caller, job_id)
            require_offer(job, factory_id, offer_id)
            change = withdraw(job, reason or "declined", now=self._clock.now(), actor=caller.actor)
            return Plan(change.after, (change,))

        return await self._ledger.settle(caller, "decline", decide, Job, request=(job_id, offer_id))

    async def renew(self, caller: Caller, job_id: str, epoch: int) -> datetime:
        """Prolong a lease; an expired one too, until the reaper has ended it.

        Raises Fenced.
        """
        async with self._workers.fenced(caller, job_id, epoch):
            job = await self._workers.job(caller, job_id)
            renewal = leases.renew(
                job, caller.factory_id or "", epoch, now=self._clock.now(), ttl=self._ttl
            )
            verdict = await self._ledger.commit(caller.actor, "renew", renewal, epoch=epoch)
            if not isinstance(verdict, Stored):
                raise Fenced(job_id, presented=epoch, current=job.lease_epoch + 1)
        return renewal.expires_at

    async def release(self, caller: Caller, job_id: str, epoch: int, reason: str) -> Job:
        """Give a job back unharmed; for a lease that was taken away, say that the work has stopped.

        Raises Fenced.
        """
        factory_id = caller.factory_id or ""

        async def decide() -> Plan[Job]:
            job = await self._workers.job(caller, job_id)
            now = self._clock.now()
            if any(e.epoch == epoch and e.factory_id == factory_id for e in job.ending):
                change = leases.stopped(job, epoch, now=now, actor=caller.actor)
                return Plan(change.after, (change,))
            lease = leases.require_lease(job, factory_id, epoch)
            result = Result.PREEMPTED if job.preemption else Result.RELEASED
            change = fail(job, factory_id, epoch, result, reason, NOTHING, now=now)
            ended = await self._workers.ended_run(lease, result, reason)
            return Plan(change.after, (change, *ended))

        async with self._workers.fenced(caller, job_id, epoch):
            return await self._ledger.settle(
                caller, "release", decide, Job, request=(job_id, epoch), epoch=epoch
            )


async def _all(granted: Sequence[Awaitable[Grant | None]]) -> list[Grant | None]:
    """What became of each; when one fails, that is told after all are done: none goes on unseen."""
    results = await asyncio.gather(*granted, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        raise failure
    return [result for result in results if not isinstance(result, BaseException)]
