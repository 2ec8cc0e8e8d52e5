"""A factory that is killed at any point: another one, with a disk of its own, ends the job once."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import FarYard, a_far_yard

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
async def yard(forks: ForkServer, tmp_path: Path) -> AsyncIterator[FarYard]:
    async with a_far_yard(forks, tmp_path) as made:
        yield made


@pytest.mark.parametrize("point", POINTS)
async def test_another_factory_ends_the_job_exactly_once(yard: FarYard, point: str) -> None:
    first = await yard.doomed("mac-1", at=point)
    hangs = f"if [ ! -e {yard.folder}/sign ]; then touch {yard.folder}/sign half; sleep 600; fi"
    job_id = await yard.submit(
        "echo hello >> hello.txt",
        setup=hangs if point == "during:setup" else "true",
        verify=hangs if point == "during:verify" else "test -e hello.txt",
    )
    assert await yard.ended(first) == KILLED, yard.said("mac-1")
    async with yard.factory("mac-2"):
        done = await yard.rests(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await yard.log(job_id)
    runs = await yard.runs(job_id)
    assert [run["factoryId"] for run in runs] == ["mac-1", "mac-2"]
    assert [run["result"] for run in runs] == ["lost", "ok"]
    assert (await yard.story(job_id)).count("tested") == 1
    assert yard.remote.text(f"aq/job/{job_id}", "hello.txt") == "hello"
    assert yard.moves(f"aq/job/{job_id}") == [done["checkpoint"]["commit"]], "pushed once"


@pytest.mark.parametrize("point", SHIP_POINTS)
async def test_another_factory_ships_the_job_exactly_once(yard: FarYard, point: str) -> None:
    async with yard.factory("mac-1"):
        job_id = await yard.submit("echo hello > hello.txt")
        await yard.rests(job_id)
    second = await yard.doomed("mac-2", at=point)
    await yard.act(job_id, "ship")
    assert await yard.ended(second) == KILLED, yard.said("mac-2")
    async with yard.factory("mac-3"):
        await yard.rests(job_id, at="shipped")
    assert (await yard.story(job_id)).count("shipped") == 1
    assert yard.remote.text("main", "hello.txt") == "hello"
    assert len(yard.moves("main")) == 1, "pushed once"


async def test_it_goes_on_from_the_last_checkpoint(yard: FarYard) -> None:
    body = "if [ -e half ]; then echo done > whole; else echo x > half; sleep 600; fi"
    first = await yard.doomed("mac-1", at="during:engine")
    job_id = await yard.submit(body)
    assert await yard.ended(first) == KILLED, yard.said("mac-1")
    async with yard.factory("mac-2"):
        done = await yard.rests(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await yard.log(job_id)
    commit = done["checkpoint"]["commit"]
    assert yard.remote.text(commit, "half") == "x"
    assert yard.remote.text(commit, "whole") == "done"
    assert yard.moves(f"aq/job/{job_id}") == [commit]


@pytest.mark.parametrize("point", ["before:clean-up", "after:clean-up"])
async def test_a_job_that_was_reported_is_not_run_again(yard: FarYard, point: str) -> None:
    first = await yard.doomed("mac-1", at=point)
    job_id = await yard.submit("echo hello > hello.txt")
    assert await yard.ended(first) == KILLED, yard.said("mac-1")
    assert (await yard.job(job_id))["stage"] == "testing"
    async with yard.factory("mac-1"):
        assert len(await yard.runs(job_id)) == 1
        assert list(yard.data_dir("mac-1").worktrees.iterdir()) == []
        assert list(yard.data_dir("mac-1").run_registry.iterdir()) == []


async def test_a_result_that_comes_too_late_is_kept_where_it_was_made(yard: FarYard) -> None:
    first = await yard.doomed("mac-1", at="after:report")
    job_id = await yard.submit("echo hello > hello.txt")
    assert await yard.ended(first) == KILLED, yard.said("mac-1")
    async with yard.factory("mac-2"):
        done = await yard.rests(job_id)
    async with yard.factory("mac-1"):
        kept = [file.name for file in yard.data_dir("mac-1").quarantine_folder(job_id, 1).iterdir()]
        assert [name.partition("-")[0] for name in kept].count("report") == 1, kept
        assert list(yard.data_dir("mac-1").outbox.iterdir()) == []
    now = await yard.job(job_id)
    assert (now["stage"], now["checkpoint"]) == ("testing", done["checkpoint"])


async def test_a_result_that_was_not_delivered_is_told_by_the_next_start(yard: FarYard) -> None:
    first = await yard.doomed("mac-1", at="after:report")
    job_id = await yard.submit("echo hello > hello.txt")
    assert await yard.ended(first) == KILLED, yard.said("mac-1")
    async with yard.factory("mac-1"):
        assert (await yard.rests(job_id))["stage"] == "testing"
        assert [run["result"] for run in await yard.runs(job_id)] == ["ok"]
