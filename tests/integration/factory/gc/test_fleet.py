"""`aq gc` of a factory in a fleet, while the factory works and after it has stopped."""

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
from tests.support.factory.local_fleet import LocalHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def gc(
    harness: LocalHarness, *flags: str, name: str = "mac-1", url: str | None = None
) -> Ran:
    """Run `aq gc` with the data and membership of a factory."""
    data_dir = harness.data_dir(name)
    save_membership(
        data_dir, FleetMembership(url or harness.server.url, name, await harness.token(name))
    )
    data = data_dir.root.parent
    settings = {"AQ_DATA": str(data), "AQ_FACTORY_REPOS": str(harness.folder)}
    return await asyncio.to_thread(Shell(harness.folder, settings).aq, "gc", *flags)


def ours(harness: LocalHarness) -> list[str]:
    return [name for name in harness.remote.branches() if name.startswith("aq/")]


async def test_gc_removes_everything_of_a_shipped_job_and_nothing_of_others(
    harness: LocalHarness,
) -> None:
    async with harness.factory(seats={"command": 2}):
        done = await harness.submit("echo hello > hello.txt", mergeStyle="squash")
        waits = await harness.submit("echo other > other.txt")
        fails = await harness.submit("echo half > half.txt; exit 1")
        await harness.wait_until_idle(done)
        await harness.wait_until_idle(waits)
        await harness.wait_until_idle(fails)
        await harness.act(done, "ship")
        await harness.wait_until_idle(done, at="shipped")
        runs = await harness.submit("echo x > x; echo under way; sleep 600")
        await harness.wait_for_log(runs, "under way")
        before = ours(harness)
        dry = await gc(harness, "--dry-run")
        assert f"would remove branch aq/job/{done}: " in dry.out
        assert ours(harness) == before
        report = await gc(harness)
        assert report.code == 0, report.err
        assert report.out.endswith("removed 2 branches\n")
        left = [name for name in before if done not in name]
        assert ours(harness) == left
        assert sorted({name.split("/")[2] for name in left}) == sorted([waits, fails, runs])
        assert harness.data_dir().worktree(runs).exists()
        again = await gc(harness)
        assert (again.out, again.err) == ("", "nothing to remove\n")
        assert (await harness.job(runs))["stage"] == "building"


async def test_failed_job_keeps_its_branch_for_a_requeue(
    harness: LocalHarness,
) -> None:
    body = "if [ -e half ]; then echo y > whole; else echo x > half; exit 1; fi"
    async with harness.factory():
        job_id = await harness.submit(body)
        assert (await harness.wait_until_idle(job_id))["stage"] == "failed"
        assert "nothing to remove" in (await gc(harness)).err
        await harness.act(job_id, "requeue")
        done = await harness.wait_until_idle(job_id, at="testing")
        assert harness.remote.text(done["checkpoint"]["commit"], "whole") == "y"


async def test_running_factory_collects_garbage_periodically(harness: LocalHarness) -> None:
    async with harness.factory(gc_every=0.2):
        job_id = await harness.submit("echo hello > hello.txt")
        waits = await harness.submit("echo other > other.txt")
        await harness.wait_until_idle(waits)
        await harness.wait_until_idle(job_id)
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
        await until(lambda: not [name for name in ours(harness) if job_id in name])
        assert f"aq/job/{waits}" in ours(harness)


async def test_continuous_gc_does_not_disturb_runs(harness: LocalHarness) -> None:
    async with harness.factory(gc_every=0.01, seats={"command": 2}):
        jobs = [await harness.submit(f"echo {n} > {n}; sleep 0.3") for n in range(3)]
        jobs += [await harness.submit("touch x; sleep 0.3", repo=None, ship="none")]
        for job_id in jobs:
            done = await harness.wait_until_idle(job_id)
            assert (done["stage"], done["result"]) == ("testing", "ok"), done["reason"]


async def test_gc_without_a_coordinator_removes_only_logs_and_notes_the_rest(
    harness: LocalHarness,
) -> None:
    async with harness.factory() as agent:
        job_id = await harness.submit("echo hello > hello.txt")
        await harness.wait_until_idle(job_id)
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
        await until(lambda: not agent.running_jobs)
    data_dir = harness.data_dir()
    old = data_dir.log_file("long-ago")
    write(data_dir.logs, {old.name: "x"})
    os.utime(old, (1, 1))
    report = await gc(harness, url="http://127.0.0.1:1")
    assert report.code == 0, report.err
    assert "removed log long-ago.log" in report.out
    assert "branches were skipped, as their jobs are unknown: cannot reach" in report.err
    assert len(ours(harness)) == 2
    assert "removed 2 branches" in (await gc(harness)).out


async def test_gc_keeps_branches_of_another_fleet(harness: LocalHarness) -> None:
    harness.remote.commit({"x": "y"}, branch="aq/job/of-another-fleet")
    async with harness.factory() as agent:
        job_id = await harness.submit("echo hello > hello.txt")
        await harness.wait_until_idle(job_id)
        await until(lambda: not agent.running_jobs)
    report = await gc(harness, "--json")
    answer: Any = report.json()
    assert (answer["swept"], answer["bytes"], answer["dryRun"]) == ([], 0, False)
    assert answer["notes"] == ["remote: branches of a job that are unknown stay: of-another-fleet"]


async def test_gc_removes_a_saved_worktree_and_keeps_an_unsaved_one(
    harness: LocalHarness,
) -> None:
    async with harness.factory() as agent:
        job_id = await harness.submit("echo hello > hello.txt")
        await harness.wait_until_idle(job_id)
        await until(lambda: not agent.running_jobs)
    git = build_git(FactorySettings(repos=harness.folder), harness.data_dir(), os.environ)
    mirror = await git.mirrors.open(git.repos.address(str(harness.remote.path)))
    for name in ("stale", "unsaved"):
        left = await Worktree.add(mirror, harness.data_dir().worktree(name), harness.start)
        left.close()
    write(harness.data_dir().worktree("unsaved"), {"new.txt": "x"})
    report = await gc(harness)
    assert "removed worktree stale: its job has no run here" in report.out
    assert "kept worktree unsaved: it has work that is saved nowhere else: new.txt" in report.err
    assert report.out.splitlines()[-1].startswith("removed 1 worktree")


def test_gc_outside_a_fleet_removes_nothing(tmp_path: Path) -> None:
    ran = Shell(tmp_path, {"AQ_DATA": str(tmp_path / "data")}).aq("gc")
    assert (ran.code, ran.out, ran.err) == (0, "", "nothing to remove\n")
    assert list(tmp_path.iterdir()) == []
