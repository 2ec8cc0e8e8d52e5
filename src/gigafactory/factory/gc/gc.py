"""What `aq gc` removes: what no run needs any more, and never what is saved nowhere else."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.data_dir import DataDir, parse_folder_name
from gigafactory.factory.core.remove_tree import last_modified, remove_tree, tree_size
from gigafactory.factory.gc.job_status import Fate, Fates
from gigafactory.factory.gc.report import Kind, Sweep, Swept, gone, kept, together
from gigafactory.factory.run import run_registry

Asked = Callable[[str], bool]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept after they were last touched."""

    home: timedelta = timedelta(days=7)
    log: timedelta = timedelta(days=30)
    quarantine: timedelta = timedelta(days=30)
    mirror: timedelta = timedelta(days=30)
    unshipped: timedelta = timedelta(days=14)
    """After the end of a job that was not shipped: so long `requeue` finds its branches."""


KEPT_FOR = Limits()


class Worktrees(Protocol):
    """What git knows of the worktrees."""

    async def discard(self, worktree: Path, *, dry_run: bool) -> str | None:
        """Remove a worktree, unless something in it is saved nowhere else; then, what that is.

        Nobody can begin to work in it meanwhile. With `dry_run` it is only looked at. Raises
        Refused where somebody works already.
        """
        ...


class Chore(Protocol):
    """Something else that is looked after in every round."""

    async def sweep(self, now: datetime, *, dry_run: bool) -> Sweep:
        """Do it once; what cannot be done is told, and never raised."""
        ...


class Housekeeping:
    """Removes what is done with; doing it twice is the same as once."""

    def __init__(
        self,
        data_dir: DataDir,
        *,
        is_live: Asked,
        fates: Fates,
        worktrees: Worktrees,
        chores: Sequence[Chore] = (),
        limits: Limits = KEPT_FOR,
    ) -> None:
        """`is_live`: the job has a run here, or may have one."""
        self._data_dir = data_dir
        self._is_live = is_live
        self._fates = fates
        self._worktrees = worktrees
        self._chores = tuple(chores)
        self._limits = limits

    async def sweep(self, now: datetime, *, dry_run: bool = False) -> Sweep:
        """Go through all places once; what cannot be removed is said, and the rest goes on."""
        local = await self._local(now, dry_run=dry_run)
        others = [await chore.sweep(now, dry_run=dry_run) for chore in self._chores]
        return together([local, *others], dry_run=dry_run)

    async def _local(self, now: datetime, *, dry_run: bool) -> Sweep:
        data_dir, limits = self._data_dir, self._limits
        known, notes = await self._known()
        found = [
            await self._worktree(each, dry_run=dry_run) for each in _entries(data_dir.worktrees)
        ]
        old = now - limits.home
        found += [
            await self._home(each, old, known, dry_run=dry_run) for each in _entries(data_dir.homes)
        ]
        found += await self._all_old("log", data_dir.logs, now - limits.log, dry_run=dry_run)
        old = now - limits.quarantine
        found += await self._all_old("quarantine", data_dir.quarantine, old, dry_run=dry_run)
        return Sweep(swept=tuple(each for each in found if each is not None), notes=notes)

    async def _known(self) -> tuple[Mapping[str, Fate] | None, tuple[str, ...]]:
        """What has become of the jobs that have homes here; None when nobody can be asked."""
        names = (parse_folder_name(folder.name) for folder in _entries(self._data_dir.homes))
        job_ids = frozenset(name for name in names if name is not None)
        if not job_ids:
            return {}, ()
        try:
            return await self._fates.of(job_ids), ()
        except Refused as refused:
            return None, (f"homes are left alone, as nobody knows their jobs: {refused.detail}",)

    async def _worktree(self, folder: Path, *, dry_run: bool) -> Swept | None:
        job_id = parse_folder_name(folder.name)
        if job_id is None:
            return kept("worktree", folder.name, "it is not named after a job")
        # Before it is asked who lives: a run that begins now is not among the dead ones.
        noted = [run for run in run_registry.load_runs(self._data_dir) if run.job_id == job_id]
        if self._is_live(job_id):
            return None
        size = await asyncio.to_thread(tree_size, folder)
        try:
            unsaved = await self._worktrees.discard(folder, dry_run=dry_run)
        except (OSError, Refused) as error:
            return kept("worktree", folder.name, f"it cannot be removed: {error}")
        if unsaved is not None:
            reason = f"it has work that is saved nowhere else: {unsaved}"
            return kept("worktree", folder.name, reason)
        if not dry_run:
            for run in noted:
                run_registry.unregister(self._data_dir, run.run_id)
        return gone("worktree", folder.name, "its job has no run here", size)

    async def _home(
        self, folder: Path, before: datetime, known: Mapping[str, Fate] | None, *, dry_run: bool
    ) -> Swept | None:
        job_id = parse_folder_name(folder.name)
        if known is None or job_id is None:
            return None
        fate = known.get(job_id)
        if fate is None:
            return await self._stranger(folder, before)
        # A session is resumed from the home: it stays until the job is over.
        return await self._old("home", folder, before, dry_run=dry_run) if fate.finished else None

    async def _stranger(self, folder: Path, before: datetime) -> Swept | None:
        touched = await asyncio.to_thread(last_modified, folder)
        if touched >= before.timestamp():
            return None
        return kept("home", folder.name, "nobody knows its job; remove it if you do not either")

    async def _all_old(
        self, kind: Kind, place: Path, before: datetime, *, dry_run: bool
    ) -> list[Swept | None]:
        entries = _entries(place)
        return [await self._old(kind, path, before, dry_run=dry_run) for path in entries]

    async def _old(
        self, kind: Kind, path: Path, before: datetime, *, dry_run: bool
    ) -> Swept | None:
        job_id = parse_folder_name(path.name)
        touched = await asyncio.to_thread(last_modified, path)
        if touched >= before.timestamp() or (job_id is not None and self._is_live(job_id)):
            return None
        size = await asyncio.to_thread(tree_size, path)
        if not dry_run:
            try:
                await asyncio.to_thread(remove_tree, path)
            except OSError as error:
                return kept(kind, path.name, f"it cannot be removed: {error}")
        return gone(kind, path.name, f"not touched since {before:%Y-%m-%d}", size)


def _entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, but for what is hidden there."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    yield from (entry for entry in entries if not entry.name.startswith("."))
