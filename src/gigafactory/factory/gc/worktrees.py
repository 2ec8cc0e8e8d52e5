"""Worktrees that a run has left: gone when all of their work is saved, and kept when it is not."""

import os
import shutil
import tempfile
from pathlib import Path

from gigafactory.domain.errors import Conflict
from gigafactory.factory.core.data_dir import parse_folder_name
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.gc.mirror_index import KnownMirrors
from gigafactory.factory.git.diff import changes
from gigafactory.factory.git.mirror import Mirror, core_config, lay_out
from gigafactory.factory.git.push import remote_branches
from gigafactory.factory.git.safe_copy import LeftOut
from gigafactory.factory.git.snapshot import Snapshots
from gigafactory.factory.git.workspace import folder_lock
from gigafactory.factory.git.worktree import Worktree, is_known

NAMED_MAX = 3


class StaleWorktrees:
    """The worktrees below one folder, whichever repos they are of."""

    def __init__(self, mirrors: KnownMirrors) -> None:
        """They belong to these mirrors."""
        self._mirrors = mirrors

    async def discard(self, worktree: Path, *, dry_run: bool) -> str | None:
        for mirror in self._mirrors.all():
            if is_known(mirror, worktree):
                left = Worktree.open(mirror, worktree)
                if left is not None:
                    return await _discard(left, dry_run=dry_run)
        return _discard_folder(worktree, dry_run=dry_run)


async def _discard(left: Worktree, *, dry_run: bool) -> str | None:
    try:
        unsaved = _closed(left.path) or await _unsaved(left)
        if unsaved is None and not dry_run:
            await left.remove()
        return unsaved
    finally:
        left.close()


def _discard_folder(path: Path, *, dry_run: bool) -> str | None:
    """The same for a folder that is of no repo: nothing of it is saved anywhere."""
    lock = FileLock.try_acquire(folder_lock(path))
    if lock is None:
        raise Conflict("somebody is at work there")
    with lock:
        names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else [path.name]
        if not names and not dry_run:
            remove_tree(path)
        folder_lock(path).unlink(missing_ok=True)
        return _some(names) if names else None


async def _unsaved(left: Worktree) -> str | None:
    """What the remote does not have of a worktree; nothing is written where others would see it."""
    with tempfile.TemporaryDirectory(prefix="aq-gc-") as scratch:
        aside = _borrowing(left.mirror, Path(scratch, "git"))
        own = _with_index_of(left, Path(scratch, "own"))
        taken = await Snapshots(aside, left.path, own).take(left.commit, "Work in progress", {})
        if taken.left_out:
            return _some([_left_out(each) for each in taken.left_out])
        if taken.commit is None or await _is_saved(left, await aside.tree(taken.commit)):
            return None
        changed = await changes(aside, left.commit, taken.commit)
        return _some([file.path for file in changed.files])


async def _is_saved(left: Worktree, tree: str) -> bool:
    """Whether a branch of the job at the remote holds exactly these files."""
    job_id = parse_folder_name(left.path.name)
    saved: dict[str, str] = {}
    for pattern in (f"aq/job/{job_id}", f"aq/wip/{job_id}/*"):
        saved |= await remote_branches(left.mirror, pattern)
    for commit in set(saved.values()):
        if await left.mirror.has(commit) and await left.mirror.tree(commit) == tree:
            return True
    return False


def _borrowing(mirror: Mirror, folder: Path) -> Mirror:
    """A repo that reads the mirror's objects and writes its own."""
    lay_out(folder, core_config(bare=True))
    (folder / "objects/info/alternates").write_text(f"{mirror.folder / 'objects'}\n")
    return Mirror(folder, mirror.address, mirror.git)


def _with_index_of(left: Worktree, folder: Path) -> Path:
    folder.mkdir()
    if left.index.exists():
        shutil.copyfile(left.index, folder / "index")
    return folder


def _closed(path: Path) -> str | None:
    """A folder that we may not look into: there may be anything in it."""
    troubles: list[OSError] = []
    for _ in os.walk(path, onerror=troubles.append):
        pass
    names = [os.path.relpath(str(each.filename), path) for each in troubles]
    return f"{_some(names)}, which cannot be read" if names else None


def _left_out(one: LeftOut) -> str:
    return f"{one.path} ({one.why.replace('_', ' ')})"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    return f"{shown} and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else shown
