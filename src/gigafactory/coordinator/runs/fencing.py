"""What all writes of workers share: authorisation, fencing, and the run's record."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.runs.budget_booking import BudgetBooking
from gigafactory.domain.errors import Fenced, Forbidden, NotFound
from gigafactory.domain.fleet.factory import Factory, is_online
from gigafactory.domain.job.change import RecordChange, StaleRevision, Stored, Write
from gigafactory.domain.job.job import Job, Lease, Result
from gigafactory.domain.job.lease import record_fenced, run_id
from gigafactory.domain.job.run import Review, Run, Usage, add_edited_lines, end_run, newest_work
from gigafactory.domain.tenancy.access import Caller

NOTED_EVERY = timedelta(seconds=5)
"""How often a sign of life is recorded; calls in between only read the clock."""


class WorkerWrites:
    """Checks and bookkeeping that every write of a worker goes through."""

    def __init__(self, store: Store, committer: Committer, clock: Clock, index: Index) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self.budgets = BudgetBooking(store, clock, index)
        self.unsaved_last_seen: dict[str, datetime] = {}
        """When factories were last seen here, as far as that is not stored yet."""

    async def require_factory(self, caller: Caller, factory_id: str) -> Factory:
        """Return the factory that the caller is, and record a sign of life.

        Raises Forbidden for anybody but the factory, NotFound when it is not enrolled.
        """
        factory = await self.find_factory(caller, factory_id)
        self._record_sign_of_life(factory_id)
        return factory

    async def find_factory(self, caller: Caller, factory_id: str) -> Factory:
        """Return the factory that the caller is.

        Raises Forbidden for anybody but the factory, NotFound when it is not enrolled.
        """
        if caller.factory_id != factory_id:
            raise Forbidden(
                f"{caller.actor} cannot act as factory {factory_id!r}; use the factory's own token"
            )
        if factory_id not in self._index.factories:
            await self._index.refresh(Factory, factory_id)
        factory = self._index.factories.get(factory_id)
        if factory is None:
            raise NotFound("factory", factory_id, "enroll it again with `aq factory enroll`")
        return factory

    def _record_sign_of_life(self, factory_id: str) -> None:
        now = self._clock.now()
        vitals = self._index.vitals.get(factory_id)
        if vitals is not None and now - vitals.last_seen < NOTED_EVERY:
            return
        if factory_id in self._index.factories:
            self._index.record_sign_of_life(factory_id, now)
            self.unsaved_last_seen[factory_id] = now

    def live_instances(self, now: datetime) -> frozenset[str]:
        """Return the factory processes that are online."""
        vitals = self._index.vitals
        online = (f for f in self._index.factories.values() if is_online(vitals.get(f.id), now))
        return frozenset(factory.instance_id for factory in online if factory.instance_id)

    async def stored_factory(self, factory_id: str) -> Factory | None:
        """Return a factory from the store, or None."""
        return await self._store.record(Factory, factory_id)

    async def require_job(self, caller: Caller, job_id: str) -> Job:
        """Return a job that this worker may report on.

        Raises NotFound, Forbidden for people: only workers report.
        """
        if caller.factory_id is None:
            raise Forbidden(
                f"{caller.actor} is not a factory; this is for the worker that holds the lease"
            )
        self._record_sign_of_life(caller.factory_id)
        job = await self._store.job(job_id)
        if job is None or not caller.can_see(job.product_id):
            raise NotFound("job", job_id)
        return job

    async def runs_by_id(self, reported: Iterable[tuple[str, int]]) -> Mapping[str, Run]:
        """Return the existing runs of these (job, epoch) pairs, by run id."""
        return await self._store.records_by_key(Run, [run_id(*place) for place in reported])

    async def visible_jobs(self, caller: Caller, job_ids: Collection[str]) -> Mapping[str, Job]:
        """Return those of these jobs that this worker may report on."""
        if caller.factory_id is None:
            return {}
        self._record_sign_of_life(caller.factory_id)
        jobs = await self._store.jobs(job_ids)
        return {job.id: job for job in jobs.values() if caller.can_see(job.product_id)}

    @asynccontextmanager
    async def fenced(
        self, caller: Caller, job_id: str, epoch: int, *, usage: Usage | None = None
    ) -> AsyncIterator[None]:
        """Refuse a fenced write, but record the fencing once and book the usage."""
        try:
            yield
        except Fenced:
            self._committer.counters.fencing_rejections += 1
            await self._require_past_run(caller, job_id)
            await self._record_fencing(caller, job_id, epoch)
            if usage is not None:
                await self._book_late_usage(caller, job_id, epoch, usage)
            raise

    async def _require_past_run(self, caller: Caller, job_id: str) -> None:
        """Hide the job from a factory that never ran it.

        Raises NotFound.
        """
        runs = await all_records(self._store, Run, prefix=f"{job_id}.")
        if not any(run.factory_id == caller.factory_id for run in runs):
            raise NotFound("job", job_id)

    async def _record_fencing(self, caller: Caller, job_id: str, epoch: int) -> None:
        while (job := await self._store.job(job_id)) is not None:
            change = record_fenced(job, caller.factory_id or "", epoch, now=self._clock.now())
            if change is None:
                return
            if not isinstance(
                await self._committer.commit(caller.actor, "fenced", change, epoch=epoch),
                StaleRevision,
            ):
                return

    async def _book_late_usage(self, caller: Caller, job_id: str, epoch: int, usage: Usage) -> None:
        while (run := await self._store.record(Run, run_id(job_id, epoch))) is not None:
            if run.factory_id != caller.factory_id:
                return
            late = msgspec.structs.replace(run, usage=usage, rev=run.rev + 1)
            writes = await self.budgets.book_runs(caller.actor, (run, late))
            if isinstance(
                await self._committer.commit(caller.actor, "late-usage", *writes), Stored
            ):
                return

    async def require_run(self, lease: Lease) -> Run:
        """Return the run of a lease."""
        run = await self._store.record(Run, lease.run_id)
        assert run is not None, "a lease is granted together with its run"
        return run

    async def end_run_writes(
        self, lease: Lease, result: Result, reason: str | None
    ) -> Sequence[Write]:
        """Return the writes that end a lease's run, for the commit that ends the lease."""
        run = await self.require_run(lease)
        ended = end_run(run, result, reason, now=self._clock.now())
        return await self.budgets.book_runs(f"factory:{lease.factory_id}", (run, ended))

    async def review_run_writes(self, job: Job, review: Review) -> tuple[RecordChange, ...]:
        """Return the write that records a review on the job's newest run."""
        run = newest_work(await self._runs_of(job))
        if run is None:
            return ()
        judged = msgspec.structs.replace(run, review=review, rev=run.rev + 1)
        return (RecordChange(before=run, after=judged),)

    async def human_edit_writes(self, job: Job, lines: int) -> tuple[RecordChange, ...]:
        """Return the write that records human edits on the job's newest run."""
        run = newest_work(await self._runs_of(job))
        return (
            () if run is None else (RecordChange(before=run, after=add_edited_lines(run, lines)),)
        )

    async def _runs_of(self, job: Job) -> Iterable[Run]:
        ids = [run_id(job.id, epoch) for epoch in range(1, job.lease_epoch + 1)]
        return (await self._store.records_by_key(Run, ids)).values()
