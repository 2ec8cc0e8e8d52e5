"""Garbage collection of mirrors: repacks them, prunes unborrowed ones, removes unused ones.

A worktree has its own git folder, which borrows the mirror's objects and names commits that no ref
of the mirror may name any more. So while there is a worktree, or a run that may create one, nothing
is dropped: packing keeps every object, referenced or not.
"""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.core.remove_tree import remove_tree, tree_size
from gigafactory.factory.gc.mirror_index import REMOVED, MirrorIndex
from gigafactory.factory.gc.report import GcItem, GcReport, kept_item, removed_item
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.worktree import has_worktrees, prune_worktrees

PACK_TIMEOUT_S = 900.0
PRUNE_TIMEOUT_S = 240.0
"""Shorter than the time for which a fetching run waits for its mirror."""
PRUNE_EVERY = timedelta(days=7)
UNREACHABLE_FOR = timedelta(days=14)
LOOSE_MAX = 2000
PACKS_MAX = 20


class MirrorCollector:
    """Repacks, prunes and removes the mirrors of this machine."""

    def __init__(self, mirrors: MirrorIndex, *, unused_for: timedelta) -> None:
        """Remove mirrors that were not used for `unused_for`."""
        self._mirrors = mirrors
        self._unused_for = unused_for

    async def collect(self, now: datetime, *, dry_run: bool) -> GcReport:
        """Collect all mirrors once, and report."""
        items = [] if dry_run else await self._finish_interrupted()
        for folder in self._mirrors.folders():
            try:
                one = await self._collect_one(folder, now, dry_run=dry_run)
            except (OSError, Refused) as error:
                one = kept_item("mirror", folder.name, f"it cannot be collected: {error}")
            if one is not None:
                items.append(one)
        return GcReport(swept=tuple(items))

    async def _finish_interrupted(self) -> list[GcItem]:
        """Finish interrupted removals, and forget worktrees that were removed by hand."""
        items: list[GcItem] = []
        for folder in self._mirrors.half_removed():
            try:
                await asyncio.to_thread(remove_tree, folder)
            except OSError as error:
                items.append(kept_item("mirror", folder.name, f"it cannot be removed: {error}"))
        for mirror in self._mirrors.all():
            try:
                items += [_forgotten_item(path) for path in prune_worktrees(mirror)]
            except OSError as error:
                items.append(
                    kept_item(
                        "mirror",
                        mirror.folder.name,
                        f"its list of worktrees cannot be pruned: {error}",
                    )
                )
        return items

    async def _collect_one(self, folder: Path, now: datetime, *, dry_run: bool) -> GcItem | None:
        if self._is_unused(folder, now):
            return await self._remove(folder, now, dry_run=dry_run)
        mirror = self._mirrors.mirror(folder)
        if mirror is None:
            return None
        wanted = await asyncio.to_thread(_is_scattered, folder)
        due = self._is_quiet(mirror) and _unpruned_for(folder, now) >= PRUNE_EVERY
        if dry_run or not (wanted or due):
            return _packed_item(folder, 0) if wanted else None
        before = await asyncio.to_thread(tree_size, folder)
        done = await (self._prune(mirror, now) if due else self._repack(mirror))
        less = before - await asyncio.to_thread(tree_size, folder)
        return _packed_item(folder, less) if done and (wanted or less > 0) else None

    async def _repack(self, mirror: Mirror) -> bool:
        """Pack all objects and lose none; reads and fetches continue meanwhile."""
        lock = FileLock.try_acquire(mirror.folder.with_suffix(".packing"))
        if lock is None:
            return False
        with lock:
            await mirror.run("repack", "-d", "-q", "--geometric=2", timeout_s=PACK_TIMEOUT_S)
        return True

    async def _prune(self, mirror: Mirror, now: datetime) -> bool:
        """Drop unreferenced objects while no run can start to borrow: that needs a fetch."""
        packing = FileLock.try_acquire(mirror.folder.with_suffix(".packing"))
        if packing is None:
            return False
        with packing:
            lock = FileLock.try_acquire(mirror.lock)
            if lock is None:
                return False
            with lock:
                if not self._is_quiet(mirror):
                    return False
                before = (now - UNREACHABLE_FOR).isoformat(timespec="seconds")
                await mirror.run(
                    *("gc", "--quiet", f"--prune={before}"),
                    timeout_s=PRUNE_TIMEOUT_S,
                    settings=(("gc.cruftPacks", "true"),),
                )
                (mirror.folder / "pruned").touch()
        return True

    async def _remove(self, folder: Path, now: datetime, *, dry_run: bool) -> GcItem | None:
        size = await asyncio.to_thread(tree_size, folder)
        days = self._unused_for.days
        item = removed_item(
            "mirror", folder.name, f"not used for {days} days; it can be fetched again", size
        )
        if dry_run:
            return item
        lock = FileLock.try_acquire(folder.with_suffix(".lock"))
        if lock is None:
            return None
        with lock:
            # A run may have opened it meanwhile.
            if not self._is_unused(folder, now):
                return None
            renamed = folder.with_suffix(REMOVED)
            await asyncio.to_thread(remove_tree, renamed)
            _put_aside(folder, renamed)
        await asyncio.to_thread(remove_tree, renamed)
        await asyncio.to_thread(remove_tree, folder.with_suffix(".worktrees"))
        return item

    def _is_unused(self, folder: Path, now: datetime) -> bool:
        if now - mirror_notes.last_used(folder) < self._unused_for:
            return False
        if self._mirrors.may_be_in_use(folder):
            return False
        worktrees = folder.with_suffix(".worktrees")
        return not worktrees.is_dir() or not any(each.is_dir() for each in worktrees.iterdir())

    def _is_quiet(self, mirror: Mirror) -> bool:
        return not has_worktrees(mirror) and not self._mirrors.may_be_in_use(mirror.folder)


def _is_scattered(folder: Path) -> bool:
    """Return whether a sample shows so many loose objects or packs that git gets slow."""
    objects = folder / "objects"
    sample = objects / "17"
    loose = len(list(sample.iterdir())) * 256 if sample.is_dir() else 0
    return loose > LOOSE_MAX or len(list(objects.glob("pack/*.pack"))) > PACKS_MAX


def _unpruned_for(folder: Path, now: datetime) -> timedelta:
    """Return how long ago a mirror was pruned, or created."""
    pruned = folder / "pruned"
    since = (pruned if pruned.exists() else folder / "HEAD").stat().st_mtime
    return now - datetime.fromtimestamp(since, now.tzinfo)


def _put_aside(folder: Path, target: Path) -> None:
    folder.rename(target)
    mirror_notes.metadata_file(folder).unlink(missing_ok=True)


def _forgotten_item(path: Path) -> GcItem:
    return removed_item("worktree", path.name, "its files were already gone")


def _packed_item(folder: Path, less: int) -> GcItem:
    reason = "it had many loose objects or packs, or unreferenced objects"
    return GcItem(kind="mirror", name=folder.name, did="packed", reason=reason, bytes=max(0, less))
