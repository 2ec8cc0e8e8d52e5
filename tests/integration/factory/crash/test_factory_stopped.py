"""A factory that was stopped past its lease, between the coordinator's word and its push."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.fork_server import ForkServer
from tests.support.factory.fleet_processes import FarYard, a_far_yard
from tests.support.polling import until

BEFORE_ITS_PUSH = "during:push:STOP"
AT_ITS_PUSH = "at:push:STOP"
BAD = 400


@pytest_asyncio.fixture
async def yard(forks: ForkServer, tmp_path: Path) -> AsyncIterator[FarYard]:
    async with a_far_yard(forks, tmp_path) as made:
        yield made


async def stopped(pid: int) -> None:
    """Come back when a process has stopped."""
    stat = Path(f"/proc/{pid}/stat")
    await until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")


async def gone_home(yard: FarYard, pid: int) -> None:
    """Have a factory end in an orderly way."""
    os.kill(pid, signal.SIGTERM)
    assert await yard.ended(pid) == 0, yard.said("mac-1")


async def test_it_changes_no_ref_when_it_wakes_up_and_keeps_its_work_to_itself(
    yard: FarYard,
) -> None:
    sleepy = await yard.doomed("mac-1", at=BEFORE_ITS_PUSH, source="poll")
    job_id = await yard.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    async with yard.factory("mac-2"):
        done = await yard.rests(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await yard.log(job_id)
        before = yard.refs()
        os.kill(sleepy, signal.SIGCONT)
        aside = yard.data_dir("mac-1").quarantine_folder(job_id, 1) / "work.patch"
        await until(aside.exists)
        await gone_home(yard, sleepy)
    assert yard.refs() == before
    assert yard.moves(f"aq/job/{job_id}") == [done["checkpoint"]["commit"]]
    assert f"+by {job_id}.1" in aside.read_text()
    now = await yard.job(job_id)
    assert (now["stage"], now["checkpoint"]) == ("testing", done["checkpoint"])
    assert list(yard.data_dir("mac-1").worktrees.iterdir()) == []


@pytest.mark.parametrize("moment", [BEFORE_ITS_PUSH, AT_ITS_PUSH])
async def test_it_changes_no_ref_that_anyone_reads_when_its_successor_is_at_work(
    yard: FarYard, moment: str
) -> None:
    sign = yard.folder / "sign"
    waits = f"echo waits; until [ -e {sign} ]; do sleep 0.05; done"
    sleepy = await yard.doomed("mac-1", at=moment, source="poll")
    job_id = await yard.submit(
        f'echo "by $AQ_RUN_ID" > hello.txt; case $AQ_RUN_ID in *.1) ;; *) {waits};; esac'
    )
    await stopped(sleepy)
    async with yard.factory("mac-2"):
        await yard.prints(job_id, "waits\n")
        before = yard.refs()
        os.kill(sleepy, signal.SIGCONT)
        await until(lambda: "run ended" in yard.said("mac-1"))
        await gone_home(yard, sleepy)
        assert yard.refs() == before
        sign.touch()
        done = await yard.rests(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await yard.log(job_id)
    commit = done["checkpoint"]["commit"]
    assert yard.moves(f"aq/job/{job_id}") == [commit]
    assert yard.remote.text(commit, "hello.txt") == f"by {successor_run(done)}"
    assert (await yard.story(job_id)).count("tested") == 1


async def test_it_changes_no_ref_when_it_has_no_successor_yet(yard: FarYard) -> None:
    sleepy = await yard.doomed("mac-1", at=BEFORE_ITS_PUSH)
    job_id = await yard.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    assert (await yard.people.post("/halt", json={})).status_code < BAD
    await until(lambda: lost(yard, job_id))
    before = yard.refs()
    os.kill(sleepy, signal.SIGCONT)
    await until((yard.data_dir("mac-1").quarantine_folder(job_id, 1) / "work.patch").exists)
    await gone_home(yard, sleepy)
    assert yard.refs() == before
    assert (await yard.job(job_id))["stage"] == "queued"


async def lost(yard: FarYard, job_id: str) -> bool:
    """Whether its lease was taken away."""
    return "lease_expired" in await yard.story(job_id)


def successor_run(job: dict[str, Any]) -> str:
    return f"{job['id']}.{job['leaseEpoch']}"


async def test_it_can_be_its_own_successor(yard: FarYard) -> None:
    sleepy = await yard.doomed("mac-1", at=BEFORE_ITS_PUSH)
    job_id = await yard.submit('echo "by $AQ_RUN_ID" > hello.txt')
    await stopped(sleepy)
    await until(lambda: lost(yard, job_id))
    os.kill(sleepy, signal.SIGCONT)
    done = await yard.rests(job_id)
    assert (done["stage"], done["result"]) == ("testing", "ok"), yard.said("mac-1")
    assert [run["result"] for run in await yard.runs(job_id)] == ["lost", "ok"]
    commit = done["checkpoint"]["commit"]
    assert yard.moves(f"aq/job/{job_id}") == [commit]
    assert yard.remote.text(commit, "hello.txt") == f"by {successor_run(done)}"
    await gone_home(yard, sleepy)
