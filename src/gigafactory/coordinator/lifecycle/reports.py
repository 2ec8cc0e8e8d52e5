"""A worker's word on its job: progress, success, failure, each fenced and answered once."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.lifecycle.plans import PlanImporter
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.composite.plan import SUCCESS
from gigafactory.domain.errors import Fault, IllegalTransition, Invalid, Refused
from gigafactory.domain.fleet.factory import disable_engine, start_cool_down
from gigafactory.domain.job.change import JobChange, RecordChange, Write
from gigafactory.domain.job.job import Event, Job, Lease, Result, Stage, Step
from gigafactory.domain.job.lease import require_lease, run_id
from gigafactory.domain.job.lifecycle import combine
from gigafactory.domain.job.run import Run
from gigafactory.domain.job.worker_report import Report, change_for, run_after
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.limits import REPORTS_MAX

ENDS_BADLY = frozenset({Stage.FAILED, Stage.QUEUED})
PLANTING = SUCCESS | {Stage.SHIPPED}
"""What a planner reports only with a plan."""


class Reports:
    """The verbs by which a worker reports."""

    def __init__(
        self, committer: Committer, clock: Clock, workers: WorkerWrites, plans: PlanImporter
    ) -> None:
        """Write reports through this committer."""
        self._plans = plans
        self._committer = committer
        self._clock = clock
        self._workers = workers

    async def report(self, caller: Caller, report: Report) -> Job:
        """Accept a worker's own word on its job, if the job is still its own.

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
        """Many reports in one call, each with its own verdict; those of one job keep their order.

        Raises Invalid for more than are taken.
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
        """What each leaves, all in one commit; nothing if one is refused, or something has moved.

        Then each has to be tried for itself.
        """
        jobs = await self._workers.visible_jobs(caller, by_job)
        runs = await self._workers.runs_by_id((report.job_id, report.epoch) for report in reports)
        told: dict[int, Job] = {}
        writes: list[Write] = []
        steps: list[tuple[Run, Run]] = []
        try:
            for job_id, numbers in by_job.items():
                for change, step in self._steps(caller, jobs[job_id], runs, reports, numbers, told):
                    writes.append(change)
                    steps.append(step)
        except (Refused, KeyError):
            return {}
        writes += await self._workers.budgets.book_runs(caller.actor, *steps)
        stored = not writes or await self._committer.attempt(caller, "reports", *writes)
        return told if stored else {}

    def _steps(
        self,
        caller: Caller,
        job: Job,
        runs: Mapping[str, Run],
        reports: Sequence[Report],
        numbers: Sequence[int],
        told: dict[int, Job],
    ) -> list[tuple[JobChange, tuple[Run, Run]]]:
        """What one job's reports come to, for it and its run; `told` gets what each leaves.

        Raises Refused for a report that is refused, or concerns more than its job and its run;
        KeyError for a run that is not there.
        """
        joined: JobChange | None = None
        run = before = runs[run_id(job.id, reports[numbers[0]].epoch)]
        for number in numbers:
            report = reports[number]
            if report.stage in ENDS_BADLY:
                raise IllegalTransition(job.id, job.stage, report.stage, "it may rest the engine")
            if report.edited_lines is not None:
                raise IllegalTransition(job.id, job.stage, job.stage, "another run is told of it")
            if job.planner and report.stage in PLANTING:
                raise IllegalTransition(job.id, job.stage, report.stage, "it has a plan")
            if report.usage is not None:
                report.usage.check()
            lease = require_lease(job, caller.factory_id or "", report.epoch)
            change = change_for(job, lease.factory_id, report, now=self._clock.now())
            if change is not None:
                run = run_after(run, change, report, now=self._clock.now())
                joined, job = combine(joined, change), change.after
            told[number] = job
        if joined is None:
            return []
        return [(joined, (before, replace(run, rev=before.rev + 1)))]

    async def _plan(self, caller: Caller, report: Report) -> Plan[Job]:
        job = await self._workers.require_job(caller, report.job_id)
        lease = require_lease(job, caller.factory_id or "", report.epoch)
        step = await self._plans.apply_report(caller, job, report, now=self._clock.now())
        report, change = step.report, step.change
        if change is None:
            return Plan(job)
        run = await self._workers.require_run(lease)
        after = run_after(run, change, report, now=self._clock.now())
        kept = await self._workers.budgets.book_runs(
            caller.actor, (run, after), other_writes=step.children
        )
        writes: list[Write] = [change, *kept]
        if report.edited_lines is not None and lease.step is Step.SHIP:
            writes += await self._workers.human_edit_writes(job, report.edited_lines)
        if report.stage in ENDS_BADLY:
            writes += await self._rest_engine(lease, report)
        return Plan(change.after, tuple(writes), retry_if_held=bool(step.children))

    async def _rest_engine(self, lease: Lease, report: Report) -> list[Write]:
        """A used-up or broken engine rests on that factory, in the commit that says so."""
        factory = await self._workers.stored_factory(lease.factory_id)
        if factory is None or lease.engine is None:
            return []
        now = self._clock.now()
        if report.result is Result.RATE_LIMITED:
            until = now + report.retry_after if report.retry_after else None
            after, kind = start_cool_down(factory, lease.engine, until, now=now), "engine_cooling"
        elif report.result is Result.ENGINE_UNAVAILABLE:
            reason = report.reason or "the factory said that it cannot be used"
            after, kind = disable_engine(factory, lease.engine, reason), "engine_unavailable"
        else:
            return []
        seats = after.engines[lease.engine]
        event = Event(
            type=kind,
            at=now,
            actor=f"factory:{factory.id}",
            product_id="*",
            data={
                "factoryId": factory.id,
                "engine": lease.engine,
                "until": seats.cooling_until.isoformat() if seats.cooling_until else None,
                "reason": report.reason,
            },
        )
        return [RecordChange(before=factory, after=after, events=(event,))]
