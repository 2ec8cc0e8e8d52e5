"""Looks after mirrors: packs them, prunes them when nothing borrows from them, removes old ones.

A worktree has a git folder of its own that borrows the mirror's objects, and names commits that no
ref of the mirror may name any more. So while there is a worktree, or a run that may make one,
nothing is ever dropped: packing keeps every object, whether anything refers to it or not.
"""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.core.remove_tree import remove_tree, tree_size
from gigafactory.factory.gc.mirror_index import REMOVED, KnownMirrors
from gigafactory.factory.gc.report import Sweep, Swept, gone, kept
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.worktree import is_borrowed, prune

PACK_TIMEOUT_S = 900.0
PRUNE_TIMEOUT_S = 240.0
"""Shorter than what a run that wants to fetch waits for its mirror."""
PRUNE_EVERY = timedelta(days=7)
UNREACHABLE_FOR = timedelta(days=14)
LOOSE_MAX = 2000
PACKS_MAX = 20


class MirrorCare:
    """The mirrors of this machine, one after the other."""

    def __init__(self, mirrors: KnownMirrors, *, unused_for: timedelta) -> None:
        """Remove those that nobody has used for so long."""
        self._mirrors = mirrors
        self._unused_for = unused_for

    async def sweep(self, now: datetime, *, dry_run: bool) -> Sweep:
        found = [] if dry_run else await self._leftovers()
        for folder in self._mirrors.folders():
            try:
                one = await self._one(folder, now, dry_run=dry_run)
            except (OSError, Refused) as error:
                one = kept("mirror", folder.name, f"it cannot be looked after: {error}")
            if one is not None:
                found.append(one)
        return Sweep(swept=tuple(found))

    async def _leftovers(self) -> list[Swept]:
        """Finish what was cut short, and forget worktrees that somebody else has removed."""
        found: list[Swept] = []
        for half in self._mirrors.half_removed():
            try:
                await asyncio.to_thread(remove_tree, half)
            except OSError as error:
                found.append(kept("mirror", half.name, f"it cannot be removed: {error}"))
        for mirror in self._mirrors.all():
            try:
                found += [_forgotten(path) for path in prune(mirror)]
            except OSError as error:
                found.append(kept("mirror", mirror.folder.name, f"it cannot be tidied: {error}"))
        return found

    async def _one(self, folder: Path, now: datetime, *, dry_run: bool) -> Swept | None:
        if self._is_unused(folder, now):
            return await self._removed(folder, now, dry_run=dry_run)
        mirror = self._mirrors.mirror(folder)
        if mirror is None:
            return None
        wanted = await asyncio.to_thread(_is_scattered, folder)
        due = self._is_quiet(mirror) and _unpruned_for(folder, now) >= PRUNE_EVERY
        if dry_run or not (wanted or due):
            return _packed(folder, 0) if wanted else None
        before = await asyncio.to_thread(tree_size, folder)
        done = await (self._pruned(mirror, now) if due else self._repacked(mirror))
        less = before - await asyncio.to_thread(tree_size, folder)
        return _packed(folder, less) if done and (wanted or less > 0) else None

    async def _repacked(self, mirror: Mirror) -> bool:
        """Bring objects together, and lose none; readers and fetches go on meanwhile."""
        lock = FileLock.try_acquire(mirror.folder.with_suffix(".packing"))
        if lock is None:
            return False
        with lock:
            await mirror.run("repack", "-d", "-q", "--geometric=2", timeout_s=PACK_TIMEOUT_S)
        return True

    async def _pruned(self, mirror: Mirror, now: datetime) -> bool:
        """Drop what nothing refers to, while nobody can begin to borrow: that takes a fetch."""
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

    async def _removed(self, folder: Path, now: datetime, *, dry_run: bool) -> Swept | None:
        size = await asyncio.to_thread(tree_size, folder)
        days = self._unused_for.days
        swept = gone("mirror", folder.name, f"not used for {days} days; it can be had again", size)
        if dry_run:
            return swept
        lock = FileLock.try_acquire(folder.with_suffix(".lock"))
        if lock is None:
            return None
        with lock:
            # Somebody may have opened it while we were weighing.
            if not self._is_unused(folder, now):
                return None
            away = folder.with_suffix(REMOVED)
            await asyncio.to_thread(remove_tree, away)
            _put_aside(folder, away)
        await asyncio.to_thread(remove_tree, away)
        await asyncio.to_thread(remove_tree, folder.with_suffix(".worktrees"))
        return swept

    def _is_unused(self, folder: Path, now: datetime) -> bool:
        if now - mirror_notes.last_used(folder) < self._unused_for:
            return False
        if self._mirrors.may_be_in_use(folder):
            return False
        worktrees = folder.with_suffix(".worktrees")
        return not worktrees.is_dir() or not any(each.is_dir() for each in worktrees.iterdir())

    def _is_quiet(self, mirror: Mirror) -> bool:
        return not is_borrowed(mirror) and not self._mirrors.may_be_in_use(mirror.folder)


def _is_scattered(folder: Path) -> bool:
    """Whether there are so many loose objects or packs that git becomes slow; told by a sample."""
    objects = folder / "objects"
    sample = objects / "17"
    loose = len(list(sample.iterdir())) * 256 if sample.is_dir() else 0
    return loose > LOOSE_MAX or len(list(objects.glob("pack/*.pack"))) > PACKS_MAX


def _unpruned_for(folder: Path, now: datetime) -> timedelta:
    """How long ago a mirror was pruned, or made."""
    pruned = folder / "pruned"
    since = (pruned if pruned.exists() else folder / "HEAD").stat().st_mtime
    return now - datetime.fromtimestamp(since, now.tzinfo)


def _put_aside(folder: Path, away: Path) -> None:
    folder.rename(away)
    mirror_notes.note_of(folder).unlink(missing_ok=True)


def _forgotten(path: Path) -> Swept:
    return gone("worktree", path.name, "its files were gone already")


def _packed(folder: Path, less: int) -> Swept:
    reason = "its objects were scattered, or nothing refers to them any more"
    return Swept(kind="mirror", name=folder.name, did="packed", reason=reason, bytes=max(0, less))
