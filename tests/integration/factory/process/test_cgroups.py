"""Control groups: each run has its own, and no process escapes it."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.process import cgroups as control_groups
from gigafactory.factory.process.cgroups import ControlGroups, ResourceLimits
from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.crash_recovery import recover_from_crash
from gigafactory.factory.run.run_registry import RegisteredRun
from tests.integration.factory.faults.test_programs import alive
from tests.services.aq import AQ, environment
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.two_machines import GcHarness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has them")

ESCAPES = "(setsid env -i /bin/sh -c ': {}; /bin/sleep 600' > /dev/null 2>&1 &)"
"""A program without our mark, in a session of its own, whose parent is gone."""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group for the test; skips the test if none can be created."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    made = Path(*found[:1]) / f"gigafactory-test-{uuid.uuid4().hex}"
    try:
        made.mkdir()
    except OSError as refused:
        pytest.skip(f"no control group can be made here: {refused}")
    yield made
    for each in below(made):
        asyncio.run(control_groups.kill_and_remove(each))
    asyncio.run(control_groups.kill_and_remove(made))


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


def below(group: Path) -> list[Path]:
    return [each for each in group.iterdir() if each.is_dir()]


def started_in(group: Path, script: str) -> "subprocess.Popen[bytes]":
    entered = f"echo 0 > {group}/cgroup.procs; {script}"
    return subprocess.Popen(["/bin/sh", "-c", entered], start_new_session=True)


async def test_process_that_escapes_its_session_is_killed_with_its_control_group(
    harness: FactoryHarness, group: Path
) -> None:
    word = uuid.uuid4().hex
    save_membership(
        harness.data_dir(),
        FleetMembership(harness.server.url, "mac-1", await harness.token("mac-1")),
    )
    job_id = await harness.submit(f"cat /proc/self/cgroup; {ESCAPES.format(word)}; touch x")
    settings = {"AQ_DATA": str(harness.folder / "disk-mac-1"), "AQ_FACTORY_SANDBOX": "none"}
    entered = f"echo 0 > {group}/cgroup.procs; exec {AQ} factory run --once"
    done = await asyncio.to_thread(
        subprocess.run,
        ["/bin/sh", "-c", f"{entered} --repos {harness.folder}"],
        env=environment(harness.folder, **settings),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    job = await harness.job(job_id)
    assert job["result"] == "ok", job["reason"]
    assert f"/{group.name}/aq-" in await harness.log(job_id), "it was in a group of its own"
    assert not alive(word)
    assert below(group) == [], "which is gone"


async def test_restart_kills_processes_left_in_a_control_group(tmp_path: Path, group: Path) -> None:
    data_dir, groups, mark, word = (
        DataDir.under(tmp_path),
        ControlGroups(group),
        new_mark(),
        "a" * 32,
    )
    data_dir.create()
    run_registry.register(
        data_dir, RegisteredRun(run_id="a.1", job_id="a", epoch=1, mark=mark, repo=None)
    )
    held = groups.create(mark)
    assert held is not None
    left = started_in(held, f"{ESCAPES.format(word)}; exit")
    left.wait()
    world = GcHarness(tmp_path / "world")
    await recover_from_crash(data_dir, world.git_harness.mirrors, world.one.repos, groups)
    assert not held.exists()
    assert not alive(word)


def test_delegated_group_is_the_factorys_own_and_never_the_root(
    tmp_path: Path, group: Path
) -> None:
    mount = f"33 24 0:28 / {group.parent} rw,relatime - cgroup2 cgroup2 rw\n"
    (tmp_path / "mountinfo").write_text(f"22 1 0:5 / /proc rw - proc proc rw\n{mount}")
    found = {}
    for own in (f"/{group.name}", f"/{group.name}/aq-factory", "/", "/gone"):
        (tmp_path / "cgroup").write_text(f"4:memory:/elsewhere\n0::{own}\n")
        found[own] = control_groups.delegated_group(tmp_path)
    assert list(found.values()) == [group, group, None, None]


def test_resource_limits_apply_to_each_run_and_the_factory_moves_aside(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "cgroup.subtree_control").touch()
    (tmp_path / "aq-factory").mkdir()
    groups = ControlGroups(tmp_path, ResourceLimits(memory_bytes=2**30, processes=50, cpus=1.5))
    assert (tmp_path / "aq-factory" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    held = groups.create(new_mark())
    assert held is not None
    written = {file.name: file.read_text() for file in held.iterdir()}
    assert written == {"memory.max": "1073741824", "pids.max": "50", "cpu.max": "150000 100000"}


async def test_kill_and_remove_reports_an_out_of_memory_kill(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 1\n")
    assert await control_groups.kill_and_remove(tmp_path)
    (tmp_path / "memory.events").write_text("low 0\nmax 4\noom 0\noom_kill 0\n")
    assert not await control_groups.kill_and_remove(tmp_path)
