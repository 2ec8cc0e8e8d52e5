"""`aq gc` of a factory: beside its coordinator, while it works and when it is stopped."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from gigafactory.config.settings import FactorySettings
from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.git.worktree import Worktree
from gigafactory.wiring.git import build_git
from tests.services.aq import Ran, Shell
from tests.support.factory.git_repo import write
from tests.support.factory.local_fleet import YardHere, a_yard
from tests.support.polling import until


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[YardHere]:
    async with a_yard(tmp_path) as made:
        yield made


async def gc(yard: YardHere, *flags: str, name: str = "mac-1", url: str | None = None) -> Ran:
    """Type the command on the machine of a factory."""
    data_dir = yard.data_dir(name)
    save_membership(data_dir, FleetMembership(url or yard.server.url, name, await yard.token(name)))
    data = data_dir.root.parent
    settings = {"AQ_DATA": str(data), "AQ_FACTORY_REPOS": str(yard.folder)}
    return await asyncio.to_thread(Shell(yard.folder, settings).aq, "gc", *flags)


def ours(yard: YardHere) -> list[str]:
    return [name for name in yard.remote.branches() if name.startswith("aq/")]


async def test_after_a_ship_nothing_of_the_job_is_left_and_all_of_others_is(
    yard: YardHere,
) -> None:
    async with yard.factory(seats={"command": 2}):
        done = await yard.submit("echo hello > hello.txt", mergeStyle="squash")
        waits = await yard.submit("echo other > other.txt")
        fails = await yard.submit("echo half > half.txt; exit 1")
        await yard.rests(done)
        await yard.rests(waits)
        await yard.rests(fails)
        await yard.act(done, "ship")
        await yard.rests(done, at="shipped")
        runs = await yard.submit("echo x > x; echo under way; sleep 600")
        await yard.prints(runs, "under way")
        before = ours(yard)
        dry = await gc(yard, "--dry-run")
        assert f"would remove branch aq/job/{done}: " in dry.out
        assert ours(yard) == before
        told = await gc(yard)
        assert told.code == 0, told.err
        assert told.out.endswith("removed 2 branches\n")
        left = [name for name in before if done not in name]
        assert ours(yard) == left
        assert sorted({name.split("/")[2] for name in left}) == sorted([waits, fails, runs])
        assert yard.data_dir().worktree(runs).exists()
        again = await gc(yard)
        assert (again.out, again.err) == ("", "nothing to remove\n")
        assert (await yard.job(runs))["stage"] == "building"


async def test_a_failed_job_goes_on_from_its_branch_until_that_is_old(yard: YardHere) -> None:
    body = "if [ -e half ]; then echo y > whole; else echo x > half; exit 1; fi"
    async with yard.factory():
        job_id = await yard.submit(body)
        assert (await yard.rests(job_id))["stage"] == "failed"
        assert "nothing to remove" in (await gc(yard)).err
        await yard.act(job_id, "requeue")
        done = await yard.rests(job_id, at="testing")
        assert yard.remote.text(done["checkpoint"]["commit"], "whole") == "y"


async def test_it_happens_by_itself(yard: YardHere) -> None:
    async with yard.factory(gc_every=0.2):
        job_id = await yard.submit("echo hello > hello.txt")
        waits = await yard.submit("echo other > other.txt")
        await yard.rests(waits)
        await yard.rests(job_id)
        await yard.act(job_id, "ship")
        await yard.rests(job_id, at="shipped")
        await until(lambda: not [name for name in ours(yard) if job_id in name])
        assert f"aq/job/{waits}" in ours(yard)


async def test_continuous_gc_does_not_disturb_runs(yard: YardHere) -> None:
    async with yard.factory(gc_every=0.01, seats={"command": 2}):
        jobs = [await yard.submit(f"echo {n} > {n}; sleep 0.3") for n in range(3)]
        jobs += [await yard.submit("touch x; sleep 0.3", repo=None, ship="none")]
        for job_id in jobs:
            done = await yard.rests(job_id)
            assert (done["stage"], done["result"]) == ("testing", "ok"), done["reason"]


async def test_without_its_coordinator_it_does_what_is_safe_and_says_so(yard: YardHere) -> None:
    async with yard.factory() as agent:
        job_id = await yard.submit("echo hello > hello.txt")
        await yard.rests(job_id)
        await yard.act(job_id, "ship")
        await yard.rests(job_id, at="shipped")
        await until(lambda: not agent.running_jobs)
    data_dir = yard.data_dir()
    old = data_dir.log_file("long-ago")
    write(data_dir.logs, {old.name: "x"})
    os.utime(old, (1, 1))
    told = await gc(yard, url="http://127.0.0.1:1")
    assert told.code == 0, told.err
    assert "removed log long-ago.log" in told.out
    assert "branches were skipped, as their jobs are unknown: cannot reach" in told.err
    assert len(ours(yard)) == 2
    assert "removed 2 branches" in (await gc(yard)).out


async def test_what_a_factory_knows_nothing_of_stays(yard: YardHere) -> None:
    yard.remote.commit({"x": "y"}, branch="aq/job/of-another-fleet")
    async with yard.factory() as agent:
        job_id = await yard.submit("echo hello > hello.txt")
        await yard.rests(job_id)
        await until(lambda: not agent.running_jobs)
    told = await gc(yard, "--json")
    answer: Any = told.json()
    assert (answer["swept"], answer["bytes"], answer["dryRun"]) == ([], 0, False)
    assert answer["notes"] == ["remote: branches of a job that are unknown stay: of-another-fleet"]


async def test_a_stopped_factory_s_worktree_goes_when_its_work_is_elsewhere(
    yard: YardHere,
) -> None:
    async with yard.factory() as agent:
        job_id = await yard.submit("echo hello > hello.txt")
        await yard.rests(job_id)
        await until(lambda: not agent.running_jobs)
    git = build_git(FactorySettings(repos=yard.folder), yard.data_dir(), os.environ)
    mirror = await git.mirrors.open(git.repos.address(str(yard.remote.path)))
    for name in ("stale", "unsaved"):
        left = await Worktree.add(mirror, yard.data_dir().worktree(name), yard.start)
        left.close()
    write(yard.data_dir().worktree("unsaved"), {"new.txt": "x"})
    told = await gc(yard)
    assert "removed worktree stale: its job has no run here" in told.out
    assert "kept worktree unsaved: it has work that is saved nowhere else: new.txt" in told.err
    assert told.out.splitlines()[-1].startswith("removed 1 worktree")


def test_a_machine_that_belongs_to_no_fleet_has_nothing_to_remove(tmp_path: Path) -> None:
    told = Shell(tmp_path, {"AQ_DATA": str(tmp_path / "data")}).aq("gc")
    assert (told.code, told.out, told.err) == (0, "", "nothing to remove\n")
    assert list(tmp_path.iterdir()) == []
