"""A factory that is stopped past its lease, after the coordinator allowed its push."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import ProcessHarness, a_process_harness
from tests.support.polling import until

BEFORE_ITS_PUSH = "during:push:STOP"
AT_ITS_PUSH = "at:push:STOP"
BAD = 400


@pytest_asyncio.fixture
async def harness(forks: ForkServer, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with a_process_harness(forks, tmp_path) as made:
        yield made


async def stopped(pid: int) -> None:
    """Wait until a process is stopped."""
    stat = Path(f"/proc/{pid}/stat")
    await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")


async def terminate(harness: ProcessHarness, pid: int) -> None:
    """Send SIGTERM to a factory and wait until it exits with code 0."""
    os.kill(pid, signal.SIGTERM)
    assert await harness.wait_for_exit(pid) == 0, harness.process_log("mac-1")


async def test_resumed_factory_changes_no_ref_and_quarantines_its_work(
    harness: ProcessHarness,
) -> None:
    sleepy = await harness.start_factory("mac-1", at=BEFORE_ITS_PUSH, source="poll")
    job_id = await harness.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    async with harness.factory("mac-2"):
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
        before = harness.refs()
        os.kill(sleepy, signal.SIGCONT)
        aside = harness.data_dir("mac-1").quarantine_folder(job_id, 1) / "work.patch"
        await until(aside.exists)
        await terminate(harness, sleepy)
    assert harness.refs() == before
    assert harness.branch_history(f"aq/job/{job_id}") == [done["checkpoint"]["commit"]]
    assert f"+by {job_id}.1" in aside.read_text()
    now = await harness.job(job_id)
    assert (now["stage"], now["checkpoint"]) == ("testing", done["checkpoint"])
    assert list(harness.data_dir("mac-1").worktrees.iterdir()) == []


@pytest.mark.parametrize("moment", [BEFORE_ITS_PUSH, AT_ITS_PUSH])
async def test_resumed_factory_changes_no_public_ref_while_its_successor_runs(
    harness: ProcessHarness, moment: str
) -> None:
    sign = harness.folder / "sign"
    waits = f"echo waits; until [ -e {sign} ]; do sleep 0.05; done"
    sleepy = await harness.start_factory("mac-1", at=moment, source="poll")
    job_id = await harness.submit(
        f'echo "by $AQ_RUN_ID" > hello.txt; case $AQ_RUN_ID in *.1) ;; *) {waits};; esac'
    )
    await stopped(sleepy)
    async with harness.factory("mac-2"):
        await harness.wait_for_log(job_id, "waits\n")
        before = harness.refs()
        os.kill(sleepy, signal.SIGCONT)
        await until(lambda: "run ended" in harness.process_log("mac-1"))
        await terminate(harness, sleepy)
        assert harness.refs() == before
        sign.touch()
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
    commit = done["checkpoint"]["commit"]
    assert harness.branch_history(f"aq/job/{job_id}") == [commit]
    assert harness.remote.text(commit, "hello.txt") == f"by {successor_run(done)}"
    assert (await harness.event_types(job_id)).count("tested") == 1


async def test_resumed_factory_changes_no_ref_while_its_job_is_queued(
    harness: ProcessHarness,
) -> None:
    sleepy = await harness.start_factory("mac-1", at=BEFORE_ITS_PUSH)
    job_id = await harness.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    assert (await harness.api.post("/halt", json={})).status_code < BAD
    await until(lambda: lost(harness, job_id))
    before = harness.refs()
    os.kill(sleepy, signal.SIGCONT)
    await until((harness.data_dir("mac-1").quarantine_folder(job_id, 1) / "work.patch").exists)
    await terminate(harness, sleepy)
    assert harness.refs() == before
    assert (await harness.job(job_id))["stage"] == "queued"


async def lost(harness: ProcessHarness, job_id: str) -> bool:
    """Return whether the lease of a job has expired."""
    return "lease_expired" in await harness.event_types(job_id)


def successor_run(job: dict[str, Any]) -> str:
    return f"{job['id']}.{job['leaseEpoch']}"


async def test_resumed_factory_can_run_its_lost_job_again(harness: ProcessHarness) -> None:
    sleepy = await harness.start_factory("mac-1", at=BEFORE_ITS_PUSH)
    job_id = await harness.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    await until(lambda: lost(harness, job_id))
    os.kill(sleepy, signal.SIGCONT)
    done = await harness.wait_until_idle(job_id)
    assert (done["stage"], done["result"]) == ("testing", "ok"), harness.process_log("mac-1")
    assert [run["result"] for run in await harness.runs(job_id)] == ["lost", "ok"]
    commit = done["checkpoint"]["commit"]
    assert harness.branch_history(f"aq/job/{job_id}") == [commit]
    assert harness.remote.text(commit, "hello.txt") == f"by {successor_run(done)}"
    await terminate(harness, sleepy)
