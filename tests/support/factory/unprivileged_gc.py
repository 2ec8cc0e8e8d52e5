"""Garbage collection as an unprivileged user, in a separate process: root ignores permissions.

Prints the result as one line of JSON.
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
from tests.support.factory.two_machines import GcHarness

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
    result: dict[str, Any] = json.loads(done.stdout)
    return result


async def main(folder: Path) -> None:
    """Collect a folder that cannot be written to, and one that cannot be read."""
    harness = GcHarness(folder)
    read_only = await harness.one.worktree("read-only", harness.base)
    write(read_only.path, {".gitignore": "cache\n", "cache/deep/file": "x"})
    (read_only.path / "cache" / "deep").chmod(0o500)
    snapshot = await read_only.snapshot(read_only.commit)
    assert snapshot.commit is not None
    await push(read_only.mirror, snapshot.commit, "aq/wip/read-only/1", expect=None)
    read_only.close()
    closed = await harness.one.worktree("closed", harness.base)
    write(closed.path, {"closed/file": "x"})
    (closed.path / "closed").chmod(0o000)
    closed.close()
    tree = folder / "tree"
    write(tree, {"cache/module/file": "x"})
    (tree / "cache" / "module").chmod(0o500)
    (tree / "cache").chmod(0o500)
    swept = (await harness.one.collect()).swept
    remove_tree(tree)
    (closed.path / "closed").chmod(0o700)
    result = {each.name: str(each) for each in swept if each.kind == "worktree"}
    left = [path.name for path in harness.one.data_dir.worktrees.iterdir()]
    sys.stdout.write(json.dumps({**result, "left": left, "tree": tree.exists()}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
