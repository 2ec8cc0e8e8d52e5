"""Housekeeping by a user to whom folders can be closed: run as a process, for root knows none.

Says what it did, as one line of JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.git.push import push
from tests.support.factory.git_repo import write
from tests.support.factory.two_machines import JobsOnARemote

ROOT = Path(__file__).parents[3]
UNPRIVILEGED = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


def gc_unprivileged(folder: Path) -> dict[str, Any]:
    """Run garbage collection as an unprivileged user, also if the tests run as root."""
    prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*prefix, sys.executable, "-m", __name__, str(folder)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def main(folder: Path) -> None:
    """Meet a folder that cannot be written to, and one that cannot be read."""
    jobs = JobsOnARemote(folder)
    ours = await jobs.one.worktree("read-only", jobs.base)
    write(ours.path, {".gitignore": "cache\n", "cache/deep/file": "x"})
    (ours.path / "cache" / "deep").chmod(0o500)
    taken = await ours.snapshot(ours.commit)
    assert taken.commit is not None
    await push(ours.mirror, taken.commit, "aq/wip/read-only/1", expect=None)
    ours.close()
    theirs = await jobs.one.worktree("closed", jobs.base)
    write(theirs.path, {"closed/file": "x"})
    (theirs.path / "closed").chmod(0o000)
    theirs.close()
    tree = folder / "tree"
    write(tree, {"cache/module/file": "x"})
    (tree / "cache" / "module").chmod(0o500)
    (tree / "cache").chmod(0o500)
    swept = (await jobs.one.sweep()).swept
    remove_tree(tree)
    (theirs.path / "closed").chmod(0o700)
    told = {each.name: str(each) for each in swept if each.kind == "worktree"}
    left = [path.name for path in jobs.one.data_dir.worktrees.iterdir()]
    sys.stdout.write(json.dumps({**told, "left": left, "tree": tree.exists()}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
