"""Batches of grants or reports: one commit, or one commit each if the batch fails."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Fenced
from gigafactory.domain.job.change import CommitResult, JobChange, Write
from gigafactory.domain.job.job import Job, Result, Stage
from gigafactory.domain.job.run import Run
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.job_file import parse_json_job
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM
from tests.support.memory_coordinator import MAC, CoordinatorHarness

ANN = replace(SYSTEM, product="notes")


class CountingStore(MemoryStore):
    """A store that counts commits of job changes."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.first: Callable[[], Awaitable[object]] | None = None
        """An action of a competitor just before the next commit."""

    async def commit(self, *writes: Write) -> CommitResult:
        if self.first is not None:
            competitor, self.first = self.first, None
            await competitor()
        self.commits += any(isinstance(write, JobChange) for write in writes)
        return await super().commit(*writes)


class Shop(CoordinatorHarness):
    """A coordinator with one factory and waiting jobs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.counted = self.store = CountingStore()

    async def opened(self, jobs: int) -> Coordinator:
        """Start a coordinator with mac-1 and this number of jobs."""
        fleet = await self.with_factory()
        manifest = {"engine": "claude", "verify": "true"}
        files = [
            parse_json_job({"manifest": manifest | {"name": f"job-{n}"}, "body": "Please."})
            for n in range(jobs)
        ]
        await fleet.submissions.submit(ANN, files)
        await fleet.index.catch_up()
        self.counted.commits = 0
        return fleet


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def start(grant: Grant) -> Report:
    return Report(job_id=grant.job.id, epoch=grant.lease.epoch, stage=Stage.BUILDING)


def done(grant: Grant) -> Report:
    return replace(start(grant), stage=Stage.TESTING, verify={"passed": True})


async def test_claim_of_several_jobs_is_one_commit(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    assert {grant.job.name for grant in grants} == {"job-0", "job-1"}
    assert shop.counted.commits == 1
    assert len({seat for grant in grants for seat in grant.lease.holds}) == sum(
        len(grant.lease.holds) for grant in grants
    )


async def test_claim_of_several_jobs_grants_the_others_when_one_is_gone(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    shop.counted.first = lambda: fleet.actions.act(ANN, "job-0", "cancel", ActionRequest())
    (grant,) = await fleet.claims.claim(MAC, "mac-1", most=2)
    assert grant.job.name == "job-1"


async def test_batch_of_reports_fences_only_the_cancelled_job(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    grants = await fleet.claims.claim(MAC, "mac-1", most=2)
    gone, kept = sorted(grants, key=lambda grant: grant.job.name)
    shop.counted.first = lambda: fleet.actions.act(ANN, "job-0", "cancel", ActionRequest())
    verdicts = await fleet.reports.report_many(MAC, [start(gone), start(kept)])
    assert isinstance(verdicts[0], Fenced)
    assert isinstance(verdicts[1], Job)


async def test_reports_of_several_jobs_are_one_commit_with_all_their_events(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    first, second = await fleet.claims.claim(MAC, "mac-1", most=2)
    shop.counted.commits = 0
    reports = [start(first), start(second), done(first), done(second)]
    verdicts = await fleet.reports.report_many(MAC, reports)
    assert shop.counted.commits == 1
    stages = [verdict.stage for verdict in verdicts if isinstance(verdict, Job)]
    assert stages == [Stage.BUILDING, Stage.BUILDING, Stage.TESTING, Stage.TESTING]
    for grant in (first, second):
        numbers = [event.seq for event in await shop.store.events(grant.job.id)]
        assert numbers == list(range(1, len(numbers) + 1))
        run = await shop.store.record(Run, grant.lease.run_id)
        assert run is not None
        assert (run.result, run.rev) == (Result.OK, 2)


async def test_rejected_report_does_not_affect_the_others(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    first, second = await fleet.claims.claim(MAC, "mac-1", most=2)
    stale = replace(start(first), epoch=first.lease.epoch + 7)
    verdicts = await fleet.reports.report_many(MAC, [stale, start(second)])
    assert isinstance(verdicts[0], Fenced)
    assert isinstance(verdicts[1], Job)
    assert verdicts[1].stage is Stage.BUILDING


async def test_rate_limit_failure_in_a_batch_cools_the_engine_down(shop: Shop) -> None:
    fleet = await shop.opened(jobs=2)
    first, second = await fleet.claims.claim(MAC, "mac-1", most=2)
    limited = replace(start(first), stage=Stage.FAILED, result=Result.RATE_LIMITED, reason="429")
    verdicts = await fleet.reports.report_many(MAC, [start(second), limited])
    assert all(isinstance(verdict, Job) for verdict in verdicts)
    factory = await fleet.factories.get(SYSTEM, "mac-1")
    assert factory.engines["claude"].cooling_until is not None


async def test_repeated_batch_with_a_request_key_gets_the_same_answer(shop: Shop) -> None:
    fleet = await shop.opened(jobs=1)
    (grant,) = await fleet.claims.claim(MAC, "mac-1")
    keyed = replace(MAC, request_key="k")
    once = await fleet.reports.report_many(keyed, [start(grant), done(grant)])
    assert await fleet.reports.report_many(keyed, [start(grant), done(grant)]) == once
