"""A factory that is killed at any point: another one, with its own disk, completes the job once."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import ProcessHarness, a_process_harness

POINTS = (
    "before:worktree",
    "at:checkpoint",
    "past:checkpoint",
    "after:worktree",
    "during:setup",
    "after:setup",
    "after:engine",
    "after:scope",
    "during:verify",
    "after:verify",
    "during:push",
    "at:push",
    "past:push",
    "after:push",
    "after:report",
)
SHIP_POINTS = ("before:ship", "during:ship", "after:ship")
KILLED = -signal.SIGKILL


@pytest_asyncio.fixture
async def harness(forks: ForkServer, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with a_process_harness(forks, tmp_path) as made:
        yield made


@pytest.mark.parametrize("point", POINTS)
async def test_another_factory_completes_the_job_exactly_once(
    harness: ProcessHarness, point: str
) -> None:
    first = await harness.start_factory("mac-1", at=point)
    hangs = (
        f"if [ ! -e {harness.folder}/sign ]; then touch {harness.folder}/sign half; sleep 600; fi"
    )
    job_id = await harness.submit(
        "echo hello >> hello.txt",
        setup=hangs if point == "during:setup" else "true",
        verify=hangs if point == "during:verify" else "test -e hello.txt",
    )
    assert await harness.wait_for_exit(first) == KILLED, harness.process_log("mac-1")
    async with harness.factory("mac-2"):
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
    runs = await harness.runs(job_id)
    assert [run["factoryId"] for run in runs] == ["mac-1", "mac-2"]
    assert [run["result"] for run in runs] == ["lost", "ok"]
    assert (await harness.event_types(job_id)).count("tested") == 1
    assert harness.remote.text(f"aq/job/{job_id}", "hello.txt") == "hello"
    assert harness.branch_history(f"aq/job/{job_id}") == [done["checkpoint"]["commit"]], (
        "pushed once"
    )


@pytest.mark.parametrize("point", SHIP_POINTS)
async def test_another_factory_ships_the_job_exactly_once(
    harness: ProcessHarness, point: str
) -> None:
    async with harness.factory("mac-1"):
        job_id = await harness.submit("echo hello > hello.txt")
        await harness.wait_until_idle(job_id)
    second = await harness.start_factory("mac-2", at=point)
    await harness.act(job_id, "ship")
    assert await harness.wait_for_exit(second) == KILLED, harness.process_log("mac-2")
    async with harness.factory("mac-3"):
        await harness.wait_until_idle(job_id, at="shipped")
    assert (await harness.event_types(job_id)).count("shipped") == 1
    assert harness.remote.text("main", "hello.txt") == "hello"
    assert len(harness.branch_history("main")) == 1, "pushed once"


async def test_another_factory_resumes_from_the_last_checkpoint(harness: ProcessHarness) -> None:
    body = "if [ -e half ]; then echo done > whole; else echo x > half; sleep 600; fi"
    first = await harness.start_factory("mac-1", at="during:engine")
    job_id = await harness.submit(body)
    assert await harness.wait_for_exit(first) == KILLED, harness.process_log("mac-1")
    async with harness.factory("mac-2"):
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
    commit = done["checkpoint"]["commit"]
    assert harness.remote.text(commit, "half") == "x"
    assert harness.remote.text(commit, "whole") == "done"
    assert harness.branch_history(f"aq/job/{job_id}") == [commit]


@pytest.mark.parametrize("point", ["before:clean-up", "after:clean-up"])
async def test_reported_job_does_not_run_again(harness: ProcessHarness, point: str) -> None:
    first = await harness.start_factory("mac-1", at=point)
    job_id = await harness.submit("echo hello > hello.txt")
    assert await harness.wait_for_exit(first) == KILLED, harness.process_log("mac-1")
    assert (await harness.job(job_id))["stage"] == "testing"
    async with harness.factory("mac-1"):
        assert len(await harness.runs(job_id)) == 1
        assert list(harness.data_dir("mac-1").worktrees.iterdir()) == []
        assert list(harness.data_dir("mac-1").run_registry.iterdir()) == []


async def test_late_result_is_quarantined_on_the_factory_that_made_it(
    harness: ProcessHarness,
) -> None:
    first = await harness.start_factory("mac-1", at="after:report")
    job_id = await harness.submit("echo hello > hello.txt")
    assert await harness.wait_for_exit(first) == KILLED, harness.process_log("mac-1")
    async with harness.factory("mac-2"):
        done = await harness.wait_until_idle(job_id)
    async with harness.factory("mac-1"):
        kept = [
            file.name for file in harness.data_dir("mac-1").quarantine_folder(job_id, 1).iterdir()
        ]
        assert [name.partition("-")[0] for name in kept].count("report") == 1, kept
        assert list(harness.data_dir("mac-1").outbox.iterdir()) == []
    now = await harness.job(job_id)
    assert (now["stage"], now["checkpoint"]) == ("testing", done["checkpoint"])


async def test_undelivered_result_is_reported_after_a_restart(
    harness: ProcessHarness,
) -> None:
    first = await harness.start_factory("mac-1", at="after:report")
    job_id = await harness.submit("echo hello > hello.txt")
    assert await harness.wait_for_exit(first) == KILLED, harness.process_log("mac-1")
    async with harness.factory("mac-1"):
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
        assert [run["result"] for run in await harness.runs(job_id)] == ["ok"]
