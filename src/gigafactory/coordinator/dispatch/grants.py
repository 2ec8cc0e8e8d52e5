"""Grants: lease picked jobs to a factory, in one commit or one by one."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.index.seat_reservation import SeatReservation
from gigafactory.coordinator.runs.budget_booking import BudgetReservation
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job.change import (
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
from gigafactory.domain.queue.ready_queue import is_excluded
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.tenancy.access import Caller

JOINT_TRIES_MAX = 3
"""Joint commits to try before granting one by one; other claimers may take some of the jobs."""
BUDGET_TRIES_MAX = 20
"""Tries after a conflict on the budget, which every grant of its product writes."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A lease with everything that the worker needs to start the run."""

    job: Job
    lease: Lease
    manifest: msgspec.Raw
    body: str
    protected_paths: tuple[str, ...] = ()
    """Paths of the repo whose changes need a person's review."""


class GrantRequest(NamedTuple):
    """A job, as just read from the store, to be leased on a reserved seat."""

    job: Job
    spec: JobSpec
    seat: SeatReservation | Pick
    instance_id: str
    number: int = 0
    """Its position among the grants of the request."""
    parent: Job | None = None
    """The composite that the job belongs to."""


class GrantPlan(NamedTuple):
    """A grant and the writes that store it."""

    grant: Grant
    change: JobChange
    records: tuple[RecordChange, ...]


class Grants:
    """Leases picked jobs, provided that nothing they depend on has changed meanwhile."""

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
        self._ttl = lease_ttl

    async def grant_picks(
        self, caller: Caller, picks: Sequence[Pick], instance_id: str
    ) -> Sequence[Grant | None]:
        """Return the grant of each pick; None where another claimer won."""
        ids = [pick.job_id for pick in picks]
        with self._index.committing(*ids):
            jobs = await self._store.jobs(ids) if ids else {}
            specs = await self._store.specs(jobs) if jobs else {}
            parents = await self.parents_of(jobs.values())
            requests = [
                GrantRequest(
                    job, specs[job.id], pick, instance_id, n, parents.get(job.parent_id or "")
                )
                for n, pick in enumerate(picks)
                if (job := jobs.get(pick.job_id)) is not None
            ]
            requests = [request for request in requests if self._may_grant(request)]
            for _ in range(JOINT_TRIES_MAX):
                if len(requests) < 2:  # noqa: PLR2004 - a joint commit needs two
                    break
                if grants := await self._grant_in_one_commit(caller, requests):
                    return grants
                requests = await self._unchanged(requests)
            return await _gather([self._grant_or_none(caller, request) for request in requests])

    async def parents_of(self, jobs: Iterable[Job]) -> Mapping[str, Job]:
        """Return the composites that these jobs belong to, by id."""
        ids = {job.parent_id for job in jobs if job.parent_id is not None}
        return await self._store.jobs(ids) if ids else {}

    async def _unchanged(self, requests: Sequence[GrantRequest]) -> list[GrantRequest]:
        # Composites are read again: the first grant of a child changes its composite.
        current_jobs = await self._store.jobs([request.job.id for request in requests])
        parents = await self.parents_of(current_jobs.values())
        return [
            request._replace(parent=parents.get(request.job.parent_id or ""))
            for request in requests
            if current_jobs.get(request.job.id) == request.job
        ]

    async def _grant_in_one_commit(
        self, caller: Caller, requests: Sequence[GrantRequest]
    ) -> Sequence[Grant]:
        """Grant all in one commit; return nothing if any part of it was refused."""
        if not all(map(self._may_grant, requests)):
            return ()
        reservation = self._workers.budgets.reservation()
        plans = [
            plan
            for request in requests
            if (plan := self._plan_within_budget(caller, request, reservation))
        ]
        if not plans:
            return ()
        guards = tuple({guard: None for plan in plans for guard in plan.change.guards})
        first, *others = (plan.change for plan in plans)
        changes = (replace(first, guards=guards), *(replace(c, guards=()) for c in others))
        records = (*(write for plan in plans for write in plan.records), *reservation.writes)
        verdict = await self._committer.commit(caller.actor, "grant", *changes, *records)
        if not isinstance(verdict, Stored):
            return ()
        self._workers.budgets.apply_stored(reservation.writes)
        self._index.apply_own_commit(verdict.position, *changes)
        return [plan.grant for plan in plans]

    async def _grant_or_none(self, caller: Caller, request: GrantRequest) -> Grant | None:
        try:
            return await self.grant(caller, request)
        except BudgetPaused:
            return None

    def _may_grant(self, request: GrantRequest) -> bool:
        spent = (
            request.parent is not None
            and request.parent.over_budget
            and request.job.step is Step.RUN
        )
        if request.parent is not None and (spent or request.parent.finished):
            # Its children are no candidates from here on, even before the feed says so.
            self._index.apply_job(request.parent)
            return False
        now, factory_id, offer = self._clock.now(), request.seat.factory_id, request.job.offer
        # The pick may be older than the job: it has waited for a lock or a commit. A standing offer
        # counts: the coordinator that made it may have a clock that is a little ahead.
        offered = offer is not None and offer.factory_id == factory_id
        if not offered and is_excluded(request.job, factory_id, now):
            return False
        if not is_ready(request.job, now):
            return False
        return self._index.may_assign(factory_id, request.job.product_id)

    async def grant(self, caller: Caller, request: GrantRequest) -> Grant | None:
        """Lease one job; return None if the job, its seat or its factory has changed.

        Raises BudgetPaused.
        """
        lock: AbstractAsyncContextManager[None] = nullcontext()
        for _ in range(BUDGET_TRIES_MAX):
            async with lock:
                if not self._may_grant(request):
                    return None
                reservation = self._workers.budgets.reservation()
                plan = self._plan(caller, request, reservation)
                verdict = await self._committer.commit(
                    caller.actor,
                    "grant",
                    plan.change,
                    *plan.records,
                    *reservation.writes,
                    epoch=plan.grant.lease.epoch,
                )
            if isinstance(verdict, Stored):
                self._workers.budgets.apply_stored(reservation.writes)
                self._index.apply_own_commit(verdict.position, plan.change)
                return plan.grant
            await self._after_conflict(caller, verdict)
            if not verdict.key.startswith("budget/"):
                return None
            lock = self._committer.contention_lock(verdict.key)
        return None

    def _plan_within_budget(
        self, caller: Caller, request: GrantRequest, reservation: BudgetReservation
    ) -> GrantPlan | None:
        try:
            return self._plan(caller, request, reservation)
        except BudgetPaused:
            return None

    def _plan(
        self, caller: Caller, request: GrantRequest, reservation: BudgetReservation
    ) -> GrantPlan:
        job, seat = request.job, request.seat
        reserved, budget_guards = reservation.reserve(job)
        decision = seat.decision.to_json() if isinstance(seat, Pick) else seat.decision
        change = leases.grant(
            job,
            seat.factory_id,
            request.instance_id,
            seat.engine,
            now=self._clock.now(),
            ttl=self._ttl,
            seats=seat.seats,
            decision=decision,
            guards=(*self._guards(caller, request), *budget_guards),
        )
        lease = change.after.lease
        assert lease is not None, "a grant makes a lease"
        spec = request.spec
        grant = Grant(
            job=change.after,
            lease=lease,
            manifest=spec.manifest,
            body=spec.body,
            protected_paths=self._index.fleet.product(job.product_id).protected_paths,
        )
        ceilings = request.parent.ceilings if request.parent else ()
        started = start_run(change.after, decision, reserved=reserved, ceilings=ceilings)
        run = RecordChange(before=None, after=started)
        # Stored by position: the same request sent twice at once gets each grant once.
        records = self._committer.record_answer(
            caller, "claim", seat.factory_id, f"{request.number:03}", grant
        )
        return GrantPlan(grant, change, (run, *records))

    def _guards(self, caller: Caller, request: GrantRequest) -> tuple[Guard, ...]:
        """Guard the halt switches, the factory, the caller's token and the composite."""
        token, parent = caller.token, request.parent
        return (
            *self._index.guards(request.seat.factory_id, request.job.product_id),
            *([RevisionGuard("token", token.key, token.rev)] if token else []),
            *([RevisionGuard("job", parent.id, parent.rev)] if parent else []),
        )

    async def _after_conflict(self, caller: Caller, verdict: CommitResult) -> None:
        """Update the index after a refused grant; the committer has refreshed changed records.

        Raises Unauthenticated when the caller's token has ended.
        """
        match verdict:
            case KeyTaken(by=by):
                self._index.mark_stale(by)
            case StaleRevision(key=key) if key.startswith("token/"):
                await self._committer.require_valid_token(caller)
            case _:
                # A changed job becomes stale when its `committing` block ends.
                return


async def _gather(granted: Sequence[Awaitable[Grant | None]]) -> list[Grant | None]:
    """Wait for all grants, then raise the first failure, so that none runs on unobserved."""
    results = await asyncio.gather(*granted, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        raise failure
    return [result for result in results if not isinstance(result, BaseException)]
