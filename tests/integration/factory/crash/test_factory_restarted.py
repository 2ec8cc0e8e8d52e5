"""A factory that restarts after a kill: it cleans up the dead runs and resumes their jobs."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.domain.errors import Conflict
from gigafactory.factory.process.orphans import find_orphans
from gigafactory.factory.run import run_registry
from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import ProcessHarness, a_process_harness

HALF_AND_WHOLE = (
    "if [ -e half ]; then echo done > whole; else echo x > half; echo y > more; sleep 600; fi"
)


@pytest_asyncio.fixture
async def harness(forks: ForkServer, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with a_process_harness(forks, tmp_path) as made:
        yield made


async def test_restart_ends_orphaned_processes_and_resumes_the_job(
    harness: ProcessHarness,
) -> None:
    data_dir = harness.data_dir("mac-1")
    first = await harness.start_factory("mac-1", at="during:engine")
    job_id = await harness.submit(HALF_AND_WHOLE)
    assert await harness.wait_for_exit(first) == -signal.SIGKILL, harness.process_log("mac-1")
    [dead] = run_registry.load_runs(data_dir)
    assert (dead.job_id, dead.epoch) == (job_id, 1)
    assert any("sleep 600" in stray.command for stray in find_orphans(dead.mark))
    assert data_dir.worktree(job_id).exists()
    async with harness.factory("mac-1"):
        assert find_orphans(dead.mark) == []
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
    assert harness.remote.text(done["checkpoint"]["commit"], "whole") == "done"
    assert "+x" in (data_dir.quarantine_folder(job_id, 1) / "work.patch").read_text()
    assert list(data_dir.worktrees.iterdir()) == []
    assert run_registry.load_runs(data_dir) == []


async def test_restart_quarantines_the_folder_of_a_job_without_a_repo(
    harness: ProcessHarness,
) -> None:
    data_dir = harness.data_dir("mac-1")
    first = await harness.start_factory("mac-1", at="after:engine")
    job_id = await harness.submit("echo x > half", repo=None, ship="none")
    assert await harness.wait_for_exit(first) == -signal.SIGKILL, harness.process_log("mac-1")
    async with harness.factory("mac-1"):
        assert (data_dir.quarantine_folder(job_id, 1) / "half").read_text() == "x\n"
        assert (await harness.wait_until_idle(job_id))["stage"] == "testing"
    assert list(data_dir.worktrees.iterdir()) == []


async def test_second_factory_in_one_data_dir_is_rejected(harness: ProcessHarness) -> None:
    async with harness.factory("mac-1"):
        with pytest.raises(Conflict, match="another factory works in"):
            async with harness.factory("mac-1"):
                pass
    async with harness.factory("mac-1"):
        pass
