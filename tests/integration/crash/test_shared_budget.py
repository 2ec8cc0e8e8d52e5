"""One budget and two coordinators on one database: every cent is booked exactly once."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Refused
from gigafactory.domain.fleet.factory import EngineSeats, Pressure
from gigafactory.domain.job.job import Result, Stage
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.budget import Budget, BudgetTerms, Period
from gigafactory.store.postgres.store import PostgresStore
from tests.support.api_server import SYSTEM, a_coordinator
from tests.support.builders import a_factory

USD = 10**9
FACTORIES = 4
JOBS = 40
REPORTS = 5
STEP = USD // 10
CEILING = BudgetTerms(ceiling_nano_usd=6 * USD, period=Period.TOTAL, reserve_nano_usd=USD // 4)


async def enrolled(fleet: Coordinator, number: int) -> Caller:
    """Enroll a factory with a slot for every job and return its caller."""
    name = f"mac-{number}"
    invited = await fleet.enrolment.invite(SYSTEM, ("*",))
    await fleet.enrolment.enroll(invited.secret, name)
    await fleet.index.catch_up()
    caller = Caller(actor=f"factory:{name}", factory_id=name, products=("*",))
    factory = a_factory(id=name, slots=JOBS, engines={"claude": EngineSeats(seats=JOBS)})
    await fleet.factories.heartbeat(caller, factory, Pressure(), ())
    return caller


async def work(caller: Caller, first: Coordinator, second: Coordinator) -> None:
    """Claim jobs until none is left and report their growing cost to both coordinators in turn."""
    name = caller.factory_id or ""
    while grants := await first.claims.claim(caller, name, most=3):
        for grant in grants:
            report = Report(job_id=grant.job.id, epoch=grant.lease.epoch, stage=Stage.BUILDING)
            await first.reports.report(caller, report)
        for number in range(1, REPORTS + 1):
            fleet = (first, second)[number % 2]
            usage = Usage(cost_nano_usd=number * STEP)
            reports = [
                Report(job_id=grant.job.id, epoch=grant.lease.epoch, usage=usage)
                for grant in grants
            ]
            verdicts = await fleet.reports.report_many(caller, reports)
            assert not any(isinstance(verdict, Refused) for verdict in verdicts)
        for grant in grants:
            end = Report(
                job_id=grant.job.id,
                epoch=grant.lease.epoch,
                stage=Stage.FAILED,
                result=Result.NO_CHANGE,
            )
            await second.reports.report(caller, end)


async def test_two_coordinators_book_every_report_once_and_stop_at_the_ceiling(
    tmp_path: Path, database: str
) -> None:
    async with AsyncExitStack() as stack:
        fleets = []
        for number in range(2):
            store = await stack.enter_async_context(PostgresStore.open(database))
            fleets.append(a_coordinator(tmp_path / str(number), store=store))
            await fleets[-1].load()
        first, second = fleets
        await first.budgets.put(SYSTEM, "notes", CEILING)
        manifest = {"engine": "claude"}
        files = [
            parse_json_job({"manifest": manifest | {"name": f"job-{n}"}, "body": "Please."})
            for n in range(JOBS)
        ]
        ann = Caller(actor="user:ann", role=SYSTEM.role, products=("*",), product="notes")
        await first.submissions.submit(ann, files)
        callers = [await enrolled(first, number) for number in range(FACTORIES)]
        for fleet in fleets:
            await fleet.index.load()
        ways = [(first, second), (second, first)] * (FACTORIES // 2)
        await asyncio.gather(
            *(work(caller, *way) for caller, way in zip(callers, ways, strict=True))
        )
        budget = await first.store.record(Budget, "notes")
        runs = await first.store.records(Run)
    assert budget is not None
    spent = budget.spent(first.clock.now()).nanos
    assert spent == sum(run.spent_nano_usd for run in runs)
    assert budget.reserved_nano_usd == 0
    assert budget.is_exhausted(first.clock.now())
    running = FACTORIES * 3
    assert spent <= 6 * USD + running * STEP * REPORTS
