"""Grants: what they are made of, and how they are stored, each for itself or many at once."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.index.index import Index, SeatReservation
from gigafactory.coordinator.runs.budget_booking import BudgetReservation
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job.change import (
    FLEET,
    CommitResult,
    Guard,
    JobChange,
    KeyTaken,
    RecordChange,
    RevisionGuard,
    StaleRevision,
    Stored,
)
from gigafactory.domain.job.job import Job, JobSpec, Lease, Step
from gigafactory.domain.job.lifecycle import is_ready
from gigafactory.domain.job.run import start_run
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.tenancy.access import Caller

JOINT_TRIES_MAX = 3
"""Whoever claims elsewhere at the same moment takes the same jobs: what is left is tried again."""
BUDGET_TRIES_MAX = 20
"""All work of a product that has a budget writes it: another try then wins."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A lease with all that the worker needs to begin."""

    job: Job
    lease: Lease
    manifest: msgspec.Raw
    body: str
    protected_paths: tuple[str, ...] = ()
    """What of the repo needs a person's look when it was changed."""


class GrantRequest(NamedTuple):
    """One job for one seat of a factory, as both were just read."""

    job: Job
    spec: JobSpec
    seat: SeatReservation | Pick
    instance_id: str
    number: int = 0
    """Its place in the answer."""
    parent: Job | None = None
    """The composite that it is part of."""


class GrantPlan(NamedTuple):
    """A grant, with the writes that make it true."""

    grant: Grant
    change: JobChange
    records: tuple[RecordChange, ...]


class Grants:
    """Leases jobs on seats that were picked, as long as nothing of it has moved on."""

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
        """Lease jobs of this store for so long at a time."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._workers = workers
        self._ttl = lease_ttl

    async def grant_picks(
        self, caller: Caller, picks: Sequence[Pick], instance_id: str
    ) -> Sequence[Grant | None]:
        """The grant of each pick; None where another was quicker."""
        ids = [pick.job_id for pick in picks]
        with self._index.committing(*ids):
            jobs = await self._store.jobs(ids) if ids else {}
            specs = await self._store.specs(jobs) if jobs else {}
            parents = await self.parents_of(jobs.values())
            wishes = [
                GrantRequest(
                    job, specs[job.id], pick, instance_id, n, parents.get(job.parent_id or "")
                )
                for n, pick in enumerate(picks)
                if (job := jobs.get(pick.job_id)) is not None
            ]
            wishes = [wish for wish in wishes if self._may_grant(wish)]
            for _ in range(JOINT_TRIES_MAX):
                if len(wishes) < 2:  # noqa: PLR2004 - one alone is not together
                    break
                if grants := await self._grant_in_one_commit(caller, wishes):
                    return grants
                wishes = await self._unchanged(wishes)
            return await _gather([self._grant_or_none(caller, wish) for wish in wishes])

    async def parents_of(self, jobs: Iterable[Job]) -> Mapping[str, Job]:
        """The composites of these jobs, by their ids."""
        ids = {job.parent_id for job in jobs if job.parent_id is not None}
        return await self._store.jobs(ids) if ids else {}

    async def _unchanged(self, wishes: Sequence[GrantRequest]) -> list[GrantRequest]:
        """Those whose jobs are as they were read: the others went to somebody quicker.

        Their composites are read anew: one goes on with the first of its children.
        """
        found = await self._store.jobs([wish.job.id for wish in wishes])
        parents = await self.parents_of(found.values())
        return [
            wish._replace(parent=parents.get(wish.job.parent_id or ""))
            for wish in wishes
            if found.get(wish.job.id) == wish.job
        ]

    async def _grant_in_one_commit(
        self, caller: Caller, wishes: Sequence[GrantRequest]
    ) -> Sequence[Grant]:
        """All of them in one commit; none when something of it has moved: then each for itself."""
        if not all(map(self._may_grant, wishes)):
            return ()
        purse = self._workers.budgets.reservation()
        plans = [plan for wish in wishes if (plan := self._plan_within_budget(caller, wish, purse))]
        if not plans:
            return ()
        guards = tuple({guard: None for plan in plans for guard in plan.change.guards})
        first, *others = (plan.change for plan in plans)
        changes = (replace(first, guards=guards), *(replace(c, guards=()) for c in others))
        kept = (*(write for plan in plans for write in plan.records), *purse.writes)
        verdict = await self._committer.commit(caller.actor, "grant", *changes, *kept)
        if not isinstance(verdict, Stored):
            return ()
        self._workers.budgets.apply_stored(purse.writes)
        position = verdict.position - sum(len(change.events) for change in changes)
        for change in changes:
            position += len(change.events)
            self._index.apply_own_commit(change.after, position)
        return [plan.grant for plan in plans]

    async def _grant_or_none(self, caller: Caller, wish: GrantRequest) -> Grant | None:
        """The grant of one pick, if it is still there to be had, and can be paid for."""
        try:
            return await self.grant(caller, wish)
        except BudgetPaused:
            return None

    def _may_grant(self, wish: GrantRequest) -> bool:
        spent = wish.parent is not None and wish.parent.over_budget and wish.job.step is Step.RUN
        if wish.parent is not None and (spent or wish.parent.finished):
            # Its children are no candidates, whether the feed has told of its end or not.
            self._index.apply_job(wish.parent)
            return False
        turn = is_ready(wish.job, self._clock.now())
        return turn and self._index.may_assign(wish.seat.factory_id, wish.job.product_id)

    async def grant(self, caller: Caller, wish: GrantRequest) -> Grant | None:
        """Lease the job on this seat; None when it, the seat or the factory has moved on.

        Raises BudgetPaused.
        """
        turn: AbstractAsyncContextManager[None] = nullcontext()
        for _ in range(BUDGET_TRIES_MAX):
            async with turn:
                if not self._may_grant(wish):
                    return None
                purse = self._workers.budgets.reservation()
                plan = self._plan(caller, wish, purse)
                verdict = await self._committer.commit(
                    caller.actor,
                    "grant",
                    plan.change,
                    *plan.records,
                    *purse.writes,
                    epoch=plan.grant.lease.epoch,
                )
            if isinstance(verdict, Stored):
                self._workers.budgets.apply_stored(purse.writes)
                self._index.apply_own_commit(plan.change.after, verdict.position)
                return plan.grant
            await self._after_conflict(caller, wish.seat.factory_id, verdict)
            if not verdict.key.startswith("budget/"):
                return None
            turn = self._committer.contention_lock(verdict.key)
        return None

    def _plan_within_budget(
        self, caller: Caller, wish: GrantRequest, purse: BudgetReservation
    ) -> GrantPlan | None:
        try:
            return self._plan(caller, wish, purse)
        except BudgetPaused:
            return None

    def _plan(self, caller: Caller, wish: GrantRequest, purse: BudgetReservation) -> GrantPlan:
        """What to commit, from how everything is known to be at this moment.

        Raises BudgetPaused.
        """
        job, seat = wish.job, wish.seat
        reserved, funded = purse.reserve(job)
        decision = seat.decision.to_json() if isinstance(seat, Pick) else seat.decision
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
        ceilings = wish.parent.ceilings if wish.parent else ()
        begun = start_run(change.after, decision, reserved=reserved, ceilings=ceilings)
        run = RecordChange(before=None, after=begun)
        # A request that comes twice at once gets each place in its answer once.
        kept = self._committer.record_answer(
            caller, "claim", seat.factory_id, f"{wish.number:03}", grant
        )
        return GrantPlan(grant, change, (run, *kept))

    def _guards(self, caller: Caller, wish: GrantRequest) -> tuple[Guard, ...]:
        """A grant stands only while switches, factory, token and composite are as they were."""
        token, parent = caller.token, wish.parent
        job, factory_id = wish.job, wish.seat.factory_id
        return (
            RevisionGuard("switch", FLEET, self._index.switch_rev(FLEET)),
            RevisionGuard("switch", job.product_id, self._index.switch_rev(job.product_id)),
            RevisionGuard("factory", factory_id, self._index.factories[factory_id].rev),
            *([RevisionGuard("token", token.key, token.rev)] if token else []),
            *([RevisionGuard("job", parent.id, parent.rev)] if parent else []),
        )

    async def _after_conflict(self, caller: Caller, factory_id: str, verdict: CommitResult) -> None:
        """After a lost race, see for ourselves what the feed has not told yet.

        Raises Unauthenticated when the token has ended: no other try could win.
        """
        match verdict:
            case KeyTaken(by=by):
                self._index.mark_stale(by)
            case StaleRevision(key=key) if key.startswith("token/"):
                await self._committer.require_valid_token(caller)
            case StaleRevision(key=key) if key.startswith("factory/"):
                await self._index.refresh_factory(factory_id)
            case StaleRevision(key=key) if key.startswith("switch/"):
                await self._index.refresh_switches()
            case _:
                # The job itself: it is looked at again when its reservation ends.
                return


async def _gather(granted: Sequence[Awaitable[Grant | None]]) -> list[Grant | None]:
    """What became of each; when one fails, that is told after all are done: none goes on unseen."""
    results = await asyncio.gather(*granted, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        raise failure
    return [result for result in results if not isinstance(result, BaseException)]
