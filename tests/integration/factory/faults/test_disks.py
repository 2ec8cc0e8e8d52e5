"""A full disk: the job is released with a clear reason, and no work is lost."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.factory.git_repo import Remote

ROOT = Path(__file__).parents[4]
ALONE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
SMALL = "mount -t tmpfs -o size=16m tmpfs $0"


async def output(*argv: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def run_jobs_on_a_small_disk(disk: Path, remote: Path) -> list[dict[str, Any]]:
    """Run jobs on a factory with a 16 MB disk and return the outcomes."""
    if shutil.which("unshare") is None or (await output(*ALONE, SMALL, str(disk)))[0]:
        pytest.skip("a small disk takes a mount namespace of one's own")
    program = f"{SMALL} && exec {sys.executable} -m tests.support.factory.full_disk $0 $1"
    code, out, err = await output(*ALONE, program, str(disk), str(remote))
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


async def test_full_disk_releases_the_job_or_is_waited_out_without_losing_work(
    tmp_path: Path,
) -> None:
    remote = Remote(tmp_path / "repos" / "notes.git")
    remote.commit({"README.md": "Notes.\n"})
    disk = tmp_path / "disk"
    disk.mkdir()
    start, end, again, middle = await run_jobs_on_a_small_disk(disk, remote.path)
    for run in (start, end):
        assert run["result"] == "released", run
        assert "the disk of this factory is full; free some space" in run["told"]
    assert start["kept"] is None
    assert "work" in end["kept"]
    assert "the work is kept on factory mac-1" in end["told"]
    assert again["result"] == "ok", again
    assert remote.text(again["commit"], "work") == "precious", "it went on with what was kept"
    assert remote.text(again["commit"], "whole") == "done"
    assert middle["result"] == "ok", middle
    assert "not saved; retrying in 0.1 s: the disk of this factory is full" in middle["log"]
    assert "bytes of the log are missing here: the disk was full]\n" in middle["log"]
    assert "aq: checkpoint: saved again\n" in middle["log"]
    assert "and on\n" in middle["log"], "the log goes on with the run"
    assert remote.text(middle["commit"], "work") == "precious"
