"""A coordinator that is killed while a factory works: no run is lost, each report counts once."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gigafactory.factory.reporting.outbox import Outbox
from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import ProcessHarness, a_process_harness
from tests.support.polling import until

WHOLE_STORY = [
    *("submitted", "offered", "assigned", "started", "checkpoint"),
    *("diff_added", "checkpoint", "usage", "verify_passed", "diff", "tested"),
]


def without_files(story: Sequence[str]) -> Iterator[str]:
    return (event for event in story if event != "diff_added")


def waits_for(sign: Path) -> str:
    """Return a script that waits until a file exists."""
    return f"until [ -e {sign} ]; do sleep 0.05; done"


async def test_run_continues_without_its_coordinator_and_reports_later(
    forks: ForkServer, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    async with (
        a_process_harness(forks, tmp_path, settings={}) as harness,
        harness.factory(seats={"command": 2}) as agent,
    ):
        plain = await harness.submit(f"echo plain; {waits_for(sign)}", repo=None, ship="none")
        pushed = await harness.submit(f"echo hello > hello.txt; echo pushed; {waits_for(sign)}")
        await harness.wait_for_log(plain, "plain\n")
        await harness.wait_for_log(pushed, "pushed\n")
        async with harness.coordinator.killed():
            sign.touch()
            outbox = Outbox(harness.data_dir().outbox)
            await until(lambda: any(outbox.read(place).last for place in outbox.pending()))
            assert pushed in agent.running_jobs, "nothing is pushed without the coordinator's word"
        assert (await harness.wait_until_idle(plain))["stage"] == "testing"
        assert (await harness.wait_until_idle(pushed))["stage"] == "testing"
        for job_id in (plain, pushed):
            assert [run["result"] for run in await harness.runs(job_id)] == ["ok"]
            log = await harness.log(job_id)
            assert log.endswith("aq: ended: ok\n"), "what was said meanwhile came later"
            assert log == harness.data_dir().log_file(f"{job_id}.1").read_text()
        assert await harness.event_types(pushed) == WHOLE_STORY
        assert outbox.pending() == []


@asynccontextmanager
async def restarting_when_killed(harness: ProcessHarness) -> AsyncIterator[None]:
    """Restart the coordinator whenever it is killed, until the block ends."""

    async def watch() -> None:
        while True:
            await harness.coordinator.wait_for_restart(harness.coordinator.process)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


REPORTS = {"begun": 1, "saved": 2, "ended": 3}


@pytest.mark.parametrize("told", REPORTS)
@pytest.mark.parametrize("moment", ["asked", "answered"])
async def test_report_with_a_lost_response_counts_once(
    forks: ForkServer, tmp_path: Path, moment: str, told: str
) -> None:
    doom = f"{moment}:report:{REPORTS[told]}"
    async with (
        a_process_harness(forks, tmp_path, settings={}, kill_points=[doom]) as harness,
        harness.factory(),
        restarting_when_killed(harness),
    ):
        first = harness.coordinator.process
        job_id = await harness.submit("echo hello > hello.txt")
        await until(lambda: harness.coordinator.process is not first)
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
        assert [run["result"] for run in await harness.runs(job_id)] == ["ok"]
        story = await harness.event_types(job_id)
        # Uploads are not ordered with reports: the diff may arrive before a repeated report.
        assert [*without_files(story)] == [*without_files(WHOLE_STORY)]
        assert story.count("diff_added") == 1
        assert len(harness.branch_history(f"aq/job/{job_id}")) == 1
