"""Reports of workers on their jobs: progress, success, failure; fenced and idempotent."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.lifecycle.plans import PlanImporter
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.composite.plan import SUCCESS
from gigafactory.domain.errors import Fault, Invalid, Refused
from gigafactory.domain.fleet.factory import disable_engine, start_cool_down
from gigafactory.domain.job.change import JobChange, RecordChange, Write
from gigafactory.domain.job.job import Event, Job, Lease, Result, Stage, Step
from gigafactory.domain.job.lease import require_lease, run_id
from gigafactory.domain.job.lifecycle import combine
from gigafactory.domain.job.run import Run
from gigafactory.domain.job.worker_report import Report, change_for, run_after
from gigafactory.domain.tenancy.access import Caller, sole_product
from gigafactory.wire.limits import REPORTS_MAX

ENDS_BADLY = frozenset({Stage.FAILED, Stage.QUEUED})
CREATES_CHILDREN = SUCCESS | {Stage.SHIPPED}
"""Stages that a planner only reports with a plan."""


class CombinedReports(msgspec.Struct, frozen=True):
    """Several reports on one job, combined into one change of the job and its run."""

    jobs: Sequence[Job]
    """The job after each report."""
    change: JobChange | None
    """None if no report changed anything."""
    run: Run


class Reports:
    """Accepts the reports of workers."""

    def __init__(
        self, committer: Committer, clock: Clock, workers: WorkerWrites, plans: PlanImporter
    ) -> None:
        self._plans = plans
        self._committer = committer
        self._clock = clock
        self._workers = workers

    async def report(self, caller: Caller, report: Report) -> Job:
        """Apply a worker's report if it still holds the lease; return the job.

        Raises Fenced, IllegalTransition, Invalid, NotFound.
        """
        if report.usage is not None:
            report.usage.check()

        async def decide() -> Plan[Job]:
            return await self._plan(caller, report)

        async with self._workers.fenced(caller, report.job_id, report.epoch, usage=report.usage):
            return await self._committer.execute(
                caller, "report", decide, Job, request=report, epoch=report.epoch
            )

    async def report_many(self, caller: Caller, reports: Sequence[Report]) -> list[Job | Refused]:
        """Apply many reports, each with its own verdict; those on one job keep their order.

        Raises Invalid for too many reports.
        """
        if len(reports) > REPORTS_MAX:
            fault = Fault("reports", f"found {len(reports)}; expected at most {REPORTS_MAX}")
            raise Invalid("the reports", [fault])
        by_job: dict[str, list[int]] = {}
        for number, report in enumerate(reports):
            by_job.setdefault(report.job_id, []).append(number)
        verdicts: dict[int, Job | Refused] = {}
        if len(reports) > 1 and caller.request_key is None:
            verdicts |= await self._commit_together(caller, reports, by_job)
        if len(verdicts) == len(reports):
            return [verdicts[number] for number in range(len(reports))]

        async def in_order(numbers: list[int]) -> None:
            for number in numbers:
                key = caller.request_key
                who = replace(caller, request_key=f"{key}#{number}") if key else caller
                try:
                    verdicts[number] = await self.report(who, reports[number])
                except Refused as refusal:
                    verdicts[number] = refusal

        await asyncio.gather(*(in_order(numbers) for numbers in by_job.values()))
        return [verdicts[number] for number in range(len(reports))]

    async def _commit_together(
        self, caller: Caller, reports: Sequence[Report], by_job: Mapping[str, Sequence[int]]
    ) -> Mapping[int, Job]:
        """Commit all reports at once; return the job after each report, by its number.

        Empty if any report is refused, needs a commit of its own or lost a race: the caller then
        reports one by one.
        """
        jobs = await self._workers.visible_jobs(caller, by_job)
        runs = await self._workers.runs_by_id((report.job_id, report.epoch) for report in reports)
        after: dict[int, Job] = {}
        writes: list[Write] = []
        bookings: list[tuple[Run, Run]] = []
        for job_id, numbers in by_job.items():
            run = runs.get(run_id(job_id, reports[numbers[0]].epoch))
            job = jobs.get(job_id)
            if job is None or run is None:
                return {}
            combined = self._combine(caller, job, run, [reports[number] for number in numbers])
            if combined is None:
                return {}
            after |= zip(numbers, combined.jobs, strict=True)
            if combined.change is not None:
                writes.append(combined.change)
                bookings.append((run, replace(combined.run, rev=run.rev + 1)))
        writes += await self._workers.budgets.book_runs(caller.actor, *bookings)
        stored = not writes or await self._committer.attempt(caller, "reports", *writes)
        return after if stored else {}

    def _combine(
        self, caller: Caller, job: Job, run: Run, reports: Sequence[Report]
    ) -> CombinedReports | None:
        """Combine the reports on one job; None if one is refused or needs its own commit."""
        change: JobChange | None = None
        jobs: list[Job] = []
        for report in reports:
            if _needs_own_commit(job, report):
                return None
            try:
                next_change = self._change(caller, job, report)
            except Refused:
                return None
            if next_change is not None:
                run = run_after(run, next_change, report, now=self._clock.now())
                change, job = combine(change, next_change), next_change.after
            jobs.append(job)
        return CombinedReports(jobs, change, run)

    def _change(self, caller: Caller, job: Job, report: Report) -> JobChange | None:
        if report.usage is not None:
            report.usage.check()
        lease = require_lease(job, caller.factory_id or "", report.epoch)
        return change_for(job, lease.factory_id, report, now=self._clock.now())

    async def _plan(self, caller: Caller, report: Report) -> Plan[Job]:
        job = await self._workers.require_job(caller, report.job_id)
        lease = require_lease(job, caller.factory_id or "", report.epoch)
        step = await self._plans.apply_report(caller, job, report, now=self._clock.now())
        report, change = step.report, step.change
        if change is None:
            return Plan(job)
        run = await self._workers.require_run(lease)
        after = run_after(run, change, report, now=self._clock.now())
        bookings = await self._workers.budgets.book_runs(
            caller.actor, (run, after), other_writes=step.children
        )
        writes: list[Write] = [change, *bookings]
        if report.edited_lines is not None and lease.step is Step.SHIP:
            writes += await self._workers.human_edit_writes(job, report.edited_lines)
        if report.stage in ENDS_BADLY:
            writes += await self._rest_engine(lease, report)
        return Plan(change.after, tuple(writes), retry_if_held=bool(step.children))

    async def _rest_engine(self, lease: Lease, report: Report) -> list[Write]:
        """Cool down or disable the engine on its factory, in the commit of the report."""
        factory = await self._workers.stored_factory(lease.factory_id)
        if factory is None or lease.engine is None:
            return []
        now = self._clock.now()
        if report.result is Result.RATE_LIMITED:
            until = now + report.retry_after if report.retry_after else None
            after, kind = start_cool_down(factory, lease.engine, until, now=now), "engine_cooling"
        elif report.result is Result.ENGINE_UNAVAILABLE:
            reason = report.reason or "the factory reported it as unusable"
            after, kind = disable_engine(factory, lease.engine, reason), "engine_unavailable"
        else:
            return []
        seats = after.engines[lease.engine]
        event = Event(
            type=kind,
            at=now,
            actor=f"factory:{factory.id}",
            product_id=sole_product(factory.products),
            data={
                "factoryId": factory.id,
                "engine": lease.engine,
                "until": seats.cooling_until.isoformat() if seats.cooling_until else None,
                "reason": report.reason,
            },
        )
        return [RecordChange(before=factory, after=after, events=(event,))]


def _needs_own_commit(job: Job, report: Report) -> bool:
    """Whether a report changes records besides its job and its run."""
    rests_engine = report.stage in ENDS_BADLY
    changes_shipped_run = report.edited_lines is not None
    creates_children = job.planner and report.stage in CREATES_CHILDREN
    return rests_engine or changes_shipped_run or creates_children
