"""What `aq gc` removes: what no run needs any more, and never what is saved nowhere else."""

import asyncio
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.places import Places, job_id_of

Kind = Literal["worktree", "home", "log", "quarantine", "branch"]
Asked = Callable[[str], bool]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept after they were last touched."""

    home: timedelta = timedelta(days=7)
    log: timedelta = timedelta(days=30)
    quarantine: timedelta = timedelta(days=30)


KEPT_FOR = Limits()


class Swept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that housekeeping has looked at and removed, or left for a reason to know."""

    kind: Kind
    name: str
    removed: bool
    reason: str

    def __str__(self) -> str:
        """Say it in one line."""
        verb = "removed" if self.removed else "kept"
        return f"{verb} {self.kind} {self.name}: {self.reason}"


class Worktrees(Protocol):
    """What git knows of the worktrees."""

    async def discard(self, worktree: Path) -> str | None:
        """Remove a worktree, unless something in it is saved nowhere else; then, what that is.

        Nobody can begin to work in it meanwhile. Raises Refused where somebody does already.
        """
        ...


class Branches(Protocol):
    """The branches of jobs, here and at the remotes."""

    async def merged_and_finished(self) -> tuple[str, ...]:
        """The `aq/job/*` that are merged, and the `aq/wip/*` of finished jobs."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a branch; one that is gone already is no error."""
        ...


class Housekeeping:
    """Removes what is done with; doing it twice is the same as once."""

    def __init__(
        self,
        places: Places,
        *,
        is_live: Asked,
        is_finished: Asked,
        worktrees: Worktrees,
        branches: Branches | None = None,
        limits: Limits = KEPT_FOR,
    ) -> None:
        """`is_live`: the job has a run here. `is_finished`: it will never have one again."""
        self._places = places
        self._is_live = is_live
        self._is_finished = is_finished
        self._worktrees = worktrees
        self._branches = branches
        self._limits = limits

    async def sweep(self, now: datetime) -> tuple[Swept, ...]:
        """Go through all places once; what cannot be removed is said, and the rest goes on."""
        places, limits = self._places, self._limits
        found = [await self._worktree(folder) for folder in _entries(places.worktrees)]
        found += [await self._home(folder, now - limits.home) for folder in _entries(places.homes)]
        found += [await self._old("log", file, now - limits.log) for file in _entries(places.logs)]
        old = now - limits.quarantine
        found += [await self._old("quarantine", each, old) for each in _entries(places.quarantine)]
        found += await self._merged()
        return tuple(each for each in found if each is not None)

    async def _worktree(self, folder: Path) -> Swept | None:
        job_id = job_id_of(folder.name)
        if job_id is None:
            return _kept("worktree", folder, "it is not named after a job")
        if self._is_live(job_id):
            return None
        try:
            unsaved = await self._worktrees.discard(folder)
        except (OSError, Refused) as error:
            return _kept("worktree", folder, f"it cannot be removed: {error}")
        if unsaved is not None:
            return _kept("worktree", folder, f"it has work that is saved nowhere else: {unsaved}")
        return _gone("worktree", folder.name, "its job has no run here")

    async def _home(self, folder: Path, before: datetime) -> Swept | None:
        job_id = job_id_of(folder.name)
        # A session is resumed from the home: it stays until the job is over.
        if job_id is None or not self._is_finished(job_id):
            return None
        return await self._old("home", folder, before)

    async def _old(self, kind: Kind, folder: Path, before: datetime) -> Swept | None:
        job_id = job_id_of(folder.name)
        touched = await asyncio.to_thread(last_touched, folder)
        if touched >= before.timestamp() or (job_id is not None and self._is_live(job_id)):
            return None
        reason = f"not touched since {before:%Y-%m-%d}"
        return await _removed(kind, folder.name, reason, asyncio.to_thread(remove_tree, folder))

    async def _merged(self) -> list[Swept | None]:
        if self._branches is None:
            return []
        swept: list[Swept | None] = []
        for name in await self._branches.merged_and_finished():
            deletion = self._branches.delete(name)
            swept.append(await _removed("branch", name, "merged or finished", deletion))
        return swept


def jobs_kept(places: Places) -> frozenset[str]:
    """The jobs that something is kept for: those to ask the coordinator about beforehand."""
    folders = (places.worktrees, places.homes, places.quarantine)
    names = (job_id_of(entry.name) for folder in folders for entry in _entries(folder))
    return frozenset(name for name in names if name is not None)


def last_touched(path: Path) -> float:
    """When anything at or below a path last changed; what vanishes meanwhile does not count."""
    newest = _changed(path)
    for folder, _, files in os.walk(path):
        newest = max(newest, _changed(Path(folder)), *(_changed(Path(folder, f)) for f in files))
    return newest


def remove_tree(path: Path) -> None:
    """Remove a file or folder, also one that was made read-only; a link is not followed.

    Raises OSError when something stays.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():
            raise
    except PermissionError:
        _open_folders(path)
        shutil.rmtree(path)


def _open_folders(path: Path) -> None:
    """Let us delete in every folder: package caches make theirs read-only."""
    path.chmod(stat.S_IRWXU)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)


def _entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, but for what systems hide there."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    yield from (entry for entry in entries if not entry.name.startswith("."))


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


async def _removed(kind: Kind, name: str, reason: str, removal: Awaitable[None]) -> Swept:
    try:
        await removal
    except (OSError, Refused) as error:
        return Swept(kind=kind, name=name, removed=False, reason=f"it cannot be removed: {error}")
    return _gone(kind, name, reason)


def _gone(kind: Kind, name: str, reason: str) -> Swept:
    return Swept(kind=kind, name=name, removed=True, reason=reason)


def _kept(kind: Kind, path: Path, reason: str) -> Swept:
    return Swept(kind=kind, name=path.name, removed=False, reason=reason)
