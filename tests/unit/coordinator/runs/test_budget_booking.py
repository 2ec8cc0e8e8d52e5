"""Budgets in a coordinator: a grant reserves, a report books, an exhausted budget stops jobs."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import BudgetPaused, Fenced, Forbidden, Invalid, NotFound
from gigafactory.domain.job.job import Result, Stage
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.tenancy.budget import AtCeiling, Budget, BudgetTerms, Period
from tests.support.api_server import SYSTEM
from tests.support.memory_coordinator import MAC
from tests.unit.coordinator.dispatch.test_grants import ANN, Shop

USD = 10**9
DAY_S = 24 * 3600.0
TEN_A_DAY = BudgetTerms(ceiling_nano_usd=10 * USD, period=Period.DAY)


class Till(Shop):
    """A coordinator whose product has a budget."""

    async def selling(self, jobs: int, terms: BudgetTerms | None = TEN_A_DAY) -> Coordinator:
        """Start a coordinator with mac-1, this number of jobs and a budget."""
        fleet = await self.opened(jobs)
        if terms is not None:
            await fleet.budgets.put(SYSTEM, "notes", terms)
        return fleet

    async def budget(self) -> Budget:
        """Return the stored budget."""
        found = await self.store.record(Budget, "notes")
        assert found is not None
        return found

    async def spent(self) -> int:
        return (await self.budget()).spent(self.clock.now()).nanos


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


def using(grant: Grant, nanos: int, **fields: object) -> Report:
    report = Report(
        job_id=grant.job.id,
        epoch=grant.lease.epoch,
        stage=Stage.BUILDING,
        usage=Usage(cost_nano_usd=nanos),
    )
    return replace(report, **fields)


async def claimed(fleet: Coordinator) -> Grant:
    (grant,) = await fleet.claims.claim(MAC, "mac-1")
    return grant


async def test_product_without_a_budget_has_no_budget_record(till: Till) -> None:
    fleet = await till.selling(1, None)
    await fleet.reports.report(MAC, using(await claimed(fleet), 5))
    assert await till.store.records(Budget) == []
    assert (await fleet.budgets.get(SYSTEM, "notes")).terms.ceiling_nano_usd is None


async def test_grant_reserves_budget_and_reports_book_the_difference(till: Till) -> None:
    fleet = await till.selling(1)
    grant = await claimed(fleet)
    assert (await till.budget()).reserved_nano_usd == USD
    await fleet.reports.report(MAC, using(grant, USD // 4))
    await fleet.reports.report(MAC, using(grant, USD // 2, stage=None))
    assert await till.spent() == USD // 2
    assert (await till.budget()).reserved_nano_usd == USD // 2
    done = using(grant, USD // 2, stage=Stage.TESTING, verify={"passed": True})
    await fleet.reports.report(MAC, done)
    assert (await till.budget()).reserved_nano_usd == 0
    assert await till.spent() == USD // 2


async def test_batch_of_reports_is_booked_in_its_one_commit(till: Till) -> None:
    fleet = await till.selling(2)
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    assert (await till.budget()).reserved_nano_usd == 2 * USD
    till.counted.commits = 0
    await fleet.reports.report_many(MAC, [using(grant, 3) for grant in grants])
    assert till.counted.commits == 1
    assert await till.spent() == 6


async def test_report_that_loses_the_race_for_the_budget_is_booked_once(till: Till) -> None:
    fleet = await till.selling(2)
    first, second = await fleet.claims.claim(MAC, "mac-1", most=2)
    till.counted.first = lambda: fleet.reports.report(MAC, using(second, 40))
    await fleet.reports.report(MAC, using(first, 2))
    assert await till.spent() == 42


async def test_concurrent_reports_are_all_booked(till: Till) -> None:
    fleet = await till.selling(2)
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    rounds = range(1, 80)
    await asyncio.gather(
        *(fleet.reports.report(MAC, using(g, n, stage=None)) for n in rounds for g in grants)
    )
    assert await till.spent() == 2 * rounds[-1]


@pytest.mark.parametrize("end", ["cancel", "release", "reap"])
async def test_every_end_of_a_run_releases_its_reservation(till: Till, end: str) -> None:
    fleet = await till.selling(1)
    grant = await claimed(fleet)
    match end:
        case "cancel":
            await fleet.actions.act(ANN, "job-0", "cancel", ActionRequest())
        case "release":
            await fleet.claims.release(MAC, grant.job.id, grant.lease.epoch, "enough")
        case _:
            for seconds in range(0, 120, 10):
                till.clock.seconds = seconds
                await fleet.reaper.step()
    run = await till.store.record(Run, grant.lease.run_id)
    assert run is not None
    assert run.ended_at is not None
    assert (await till.budget()).reserved_nano_usd == 0


async def test_late_usage_of_a_cancelled_run_is_booked(till: Till) -> None:
    fleet = await till.selling(1)
    grant = await claimed(fleet)
    await fleet.reports.report(MAC, using(grant, 3))
    await fleet.actions.act(ANN, "job-0", "cancel", ActionRequest())
    with pytest.raises(Fenced):
        await fleet.reports.report(MAC, using(grant, 8, stage=None))
    assert await till.spent() == 8


async def test_new_ceiling_counts_earlier_spend(till: Till) -> None:
    fleet = await till.selling(1, None)
    grant = await claimed(fleet)
    await fleet.reports.report(MAC, using(grant, 6 * USD))
    with pytest.raises(Invalid, match="6 is spent already"):
        await fleet.budgets.put(SYSTEM, "notes", replace(TEN_A_DAY, ceiling_nano_usd=5 * USD))
    assert await till.store.records(Budget) == []
    await fleet.budgets.put(SYSTEM, "notes", TEN_A_DAY)
    assert await till.spent() == 6 * USD
    await fleet.reports.report(MAC, using(grant, 7 * USD, stage=None))
    assert await till.spent() == 7 * USD


async def test_report_for_a_budget_unknown_to_its_coordinator_is_booked(
    till: Till,
) -> None:
    fleet = await till.selling(2, None)
    other = await till.coordinator()
    grant = await claimed(fleet)
    await other.budgets.put(SYSTEM, "notes", TEN_A_DAY)
    await fleet.reports.report(MAC, using(grant, 5))
    assert await till.spent() == 5
    assert await claimed(fleet) is not None
    assert (await till.budget()).reserved_nano_usd == USD


async def test_two_coordinators_never_reserve_more_than_the_budget(till: Till) -> None:
    fleet = await till.selling(2, replace(TEN_A_DAY, reserve_nano_usd=6 * USD))
    other = await till.coordinator()
    both = await asyncio.gather(fleet.claims.claim(MAC, "mac-1"), other.claims.claim(MAC, "mac-1"))
    assert sum(map(len, both)) == 1
    assert (await till.budget()).reserved_nano_usd == 6 * USD


async def test_claim_of_several_jobs_grants_only_those_within_the_budget(till: Till) -> None:
    fleet = await till.selling(2, replace(TEN_A_DAY, reserve_nano_usd=6 * USD))
    assert len(await fleet.claims.claim(MAC, "mac-1", most=2)) == 1
    assert await fleet.claims.claim(MAC, "mac-1", most=2) == []
    (waiting,) = await fleet.jobs.find(ANN, JobQuery(stages=(Stage.QUEUED,)))
    answer = await fleet.jobs.explain(waiting)
    assert answer.reasons[0].code == "budget"
    assert "$4 is left" in answer.summary


async def test_exhausted_budget_grants_nothing_and_preempts_running_jobs(till: Till) -> None:
    fleet = await till.selling(2)
    first = await claimed(fleet)
    await fleet.reports.report(MAC, using(first, 10 * USD))
    assert await fleet.claims.claim(MAC, "mac-1") == []
    await fleet.treasurer.step()
    await fleet.index.catch_up()
    assert [(c.type, c.job_id) for c in fleet.factories.commands("mac-1")] == [
        ("preempt", first.job.id)
    ]
    back = using(first, 11 * USD, stage=Stage.QUEUED, result=Result.PREEMPTED, reason="stopped")
    job = await fleet.reports.report(MAC, back)
    assert (job.stage, job.attempts) == (Stage.QUEUED, 0)
    assert (await fleet.jobs.explain(job)).reasons[0].code == "budget_paused"
    await fleet.treasurer.step()


async def test_budget_is_renewed_on_a_new_day(till: Till) -> None:
    fleet = await till.selling(2)
    first = await claimed(fleet)
    await fleet.reports.report(MAC, using(first, 0))
    done = using(first, 10 * USD, stage=Stage.REVIEW, verify={"passed": True})
    await fleet.reports.report(MAC, done)
    assert await fleet.claims.claim(MAC, "mac-1") == []
    till.clock.seconds = DAY_S
    assert await claimed(fleet) is not None


async def test_running_work_finishes_when_the_budget_allows_it(till: Till) -> None:
    fleet = await till.selling(1, replace(TEN_A_DAY, at_ceiling=AtCeiling.FINISH))
    await fleet.reports.report(MAC, using(await claimed(fleet), 10 * USD))
    await fleet.index.catch_up()
    await fleet.treasurer.step()
    await fleet.index.catch_up()
    assert fleet.factories.commands("mac-1") == []


async def test_no_job_is_granted_after_a_pause_is_acknowledged(till: Till) -> None:
    fleet = await till.selling(1, None)
    other = await till.coordinator()
    await other.budgets.pause(SYSTEM, "notes", "ask finance")
    till.counted.commits = 0
    assert await fleet.claims.claim(MAC, "mac-1") == []
    (matter,) = [m for m in await fleet.attention.list(SYSTEM) if m.kind == "budget_paused"]
    assert (matter.subject, matter.actions) == ("notes", ("resume",))
    await fleet.budgets.resume(SYSTEM, "notes")
    assert await claimed(fleet) is not None


async def test_pause_that_overtakes_a_claim_wins(till: Till) -> None:
    fleet = await till.selling(1, None)
    till.counted.first = lambda: fleet.budgets.pause(SYSTEM, "notes")
    assert await fleet.claims.claim(MAC, "mac-1") == []


async def test_budget_warnings_appear_in_audit_log_and_attention(till: Till) -> None:
    fleet = await till.selling(1)
    grant = await claimed(fleet)
    await fleet.reports.report(MAC, using(grant, 6 * USD))
    await fleet.reports.report(MAC, using(grant, 9 * USD, stage=None))
    items = [e for e in await till.store.audit(("notes",)) if e.type == "budget_warning"]
    assert [event.data["percent"] for event in items] == [80, 50]
    (matter,) = [m for m in await fleet.attention.list(SYSTEM) if m.kind == "budget"]
    assert matter.reason.startswith("90 % is spent: $9 of $10 today")
    assert matter.since == till.clock.now()


async def test_spent_budget_cannot_be_resumed_without_a_higher_ceiling(till: Till) -> None:
    fleet = await till.selling(1)
    await fleet.reports.report(MAC, using(await claimed(fleet), 10 * USD))
    with pytest.raises(BudgetPaused, match="raise the ceiling"):
        await fleet.budgets.resume(SYSTEM, "notes")
    higher = replace(TEN_A_DAY, ceiling_nano_usd=20 * USD)
    assert not (await fleet.budgets.put(SYSTEM, "notes", higher)).is_exhausted(till.clock.now())


async def test_unchanged_budget_writes_no_second_event(till: Till) -> None:
    fleet = await till.selling(1)
    await fleet.budgets.put(SYSTEM, "notes", TEN_A_DAY)
    items = [event.type for event in await till.store.audit(("notes",))]
    assert items.count("budget_changed") == 1


async def test_budget_is_hidden_from_other_products_and_closed_to_factories(till: Till) -> None:
    fleet = await till.selling(1)
    with pytest.raises(Forbidden):
        await fleet.budgets.put(MAC, "notes", TEN_A_DAY)
    stranger = replace(SYSTEM, products=("shop",))
    with pytest.raises(NotFound):
        await fleet.budgets.get(stranger, "notes")
    assert await fleet.budgets.all(stranger) == []
