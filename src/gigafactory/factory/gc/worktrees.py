"""Garbage collection of worktrees: removed if all their work is saved, else kept."""

import os
import shutil
import tempfile
from pathlib import Path

from gigafactory.domain.errors import Conflict
from gigafactory.factory.core.data_dir import parse_folder_name
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.gc.mirror_index import MirrorIndex
from gigafactory.factory.git.diff import compare
from gigafactory.factory.git.mirror import Mirror, core_config, init_repo
from gigafactory.factory.git.push import remote_branches
from gigafactory.factory.git.safe_copy import SkippedPath
from gigafactory.factory.git.snapshot import Snapshots
from gigafactory.factory.git.workspace import folder_lock
from gigafactory.factory.git.worktree import Worktree, has_worktree_at

NAMED_MAX = 3


class WorktreeCollector:
    """Removes worktrees of any repo whose run has ended."""

    def __init__(self, mirrors: MirrorIndex) -> None:
        self._mirrors = mirrors

    async def discard(self, worktree: Path, *, dry_run: bool) -> str | None:
        """Remove a worktree unless it has unsaved work; return that work.

        Raises GitFailed if it cannot be determined what is saved, and Refused if a run is working
        in it.
        """
        for mirror in self._mirrors.all():
            if has_worktree_at(mirror, worktree):
                left = Worktree.open(mirror, worktree)
                if left is not None:
                    return await _discard(left, dry_run=dry_run)
        return _discard_folder(worktree, dry_run=dry_run)


async def _discard(left: Worktree, *, dry_run: bool) -> str | None:
    try:
        unsaved = _unreadable(left.path) or await _unsaved(left)
        if unsaved is None and not dry_run:
            await left.remove()
        return unsaved
    finally:
        left.close()


def _discard_folder(path: Path, *, dry_run: bool) -> str | None:
    """Remove a folder that is no git worktree, if it is empty: nothing of it is saved."""
    lock = FileLock.try_acquire(folder_lock(path))
    if lock is None:
        raise Conflict("a run is working in it")
    with lock:
        names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else [path.name]
        if not names and not dry_run:
            remove_tree(path)
        folder_lock(path).unlink(missing_ok=True)
        return _shorten_list(names) if names else None


async def _unsaved(left: Worktree) -> str | None:
    """Return what the remote lacks of a worktree; writes nothing that others would see."""
    with tempfile.TemporaryDirectory(prefix="aq-gc-") as scratch:
        scratch_git = _scratch_repo(left.mirror, Path(scratch, "git"))
        own = _with_index_of(left, Path(scratch, "own"))
        taken = await Snapshots(scratch_git, left.path, own).take(
            left.commit, "Work in progress", {}
        )
        if taken.left_out:
            return _shorten_list([_describe_skipped(each) for each in taken.left_out])
        if taken.commit is None or await _is_saved(left, await scratch_git.tree(taken.commit)):
            return None
        changed = await compare(scratch_git, left.commit, taken.commit)
        return _shorten_list([file.path for file in changed.files])


async def _is_saved(left: Worktree, tree: str) -> bool:
    """Return whether a branch of the job at the remote has exactly these files."""
    job_id = parse_folder_name(left.path.name)
    saved: dict[str, str] = {}
    for pattern in (f"aq/job/{job_id}", f"aq/wip/{job_id}/*"):
        saved |= await remote_branches(left.mirror, pattern)
    for commit in set(saved.values()):
        if await left.mirror.has_commit(commit) and await left.mirror.tree(commit) == tree:
            return True
    return False


def _scratch_repo(mirror: Mirror, folder: Path) -> Mirror:
    """Return a temporary repo that reads the mirror's objects and writes its own."""
    init_repo(folder, core_config(bare=True))
    (folder / "objects/info/alternates").write_text(f"{mirror.folder / 'objects'}\n")
    return Mirror(folder, mirror.address, mirror.git)


def _with_index_of(left: Worktree, folder: Path) -> Path:
    folder.mkdir()
    if left.index.exists():
        shutil.copyfile(left.index, folder / "index")
    return folder


def _unreadable(path: Path) -> str | None:
    """Return the entries that cannot be read and may contain anything; None if there are none."""
    errors: list[OSError] = []
    for _ in os.walk(path, onerror=errors.append):
        pass
    names = [os.path.relpath(str(each.filename), path) for each in errors]
    return f"{_shorten_list(names)}, which cannot be read" if names else None


def _describe_skipped(one: SkippedPath) -> str:
    return f"{one.path} ({one.why.replace('_', ' ')})"


def _shorten_list(names: list[str]) -> str:
    first_names = ", ".join(names[:NAMED_MAX])
    return (
        f"{first_names} and {len(names) - NAMED_MAX} more"
        if len(names) > NAMED_MAX
        else first_names
    )
