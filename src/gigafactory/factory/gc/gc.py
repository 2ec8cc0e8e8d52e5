"""What `aq gc` removes: files that no run needs any more, never work that is saved nowhere else."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.data_dir import DataDir, parse_folder_name
from gigafactory.factory.core.remove_tree import last_modified, remove_tree, tree_size
from gigafactory.factory.gc.job_status import JobState, JobStates
from gigafactory.factory.gc.report import (
    GcItem,
    GcReport,
    Kind,
    kept_item,
    merge_reports,
    removed_item,
)
from gigafactory.factory.run import run_registry

IsLive = Callable[[str], bool]


class GcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things are kept after their last use."""

    home: timedelta = timedelta(days=7)
    log: timedelta = timedelta(days=30)
    quarantine: timedelta = timedelta(days=30)
    mirror: timedelta = timedelta(days=30)
    unshipped: timedelta = timedelta(days=14)
    """After the end of a job that was not shipped: until then `requeue` finds its branches."""


DEFAULT_LIMITS = GcLimits()


class WorktreeRemover(Protocol):
    """Removes worktrees."""

    async def discard(self, worktree: Path, *, dry_run: bool) -> str | None:
        """Remove a worktree, unless it has work that is saved nowhere else; return that work.

        No run can start in it meanwhile. With `dry_run` it is only inspected. Raises Refused if a
        run is working in it.
        """
        ...


class GcTask(Protocol):
    """An additional task of every collection."""

    async def collect(self, now: datetime, *, dry_run: bool) -> GcReport:
        """Run once; failures are reported, never raised."""
        ...


class GarbageCollector:
    """Removes files of ended runs; idempotent."""

    def __init__(
        self,
        data_dir: DataDir,
        *,
        is_live: IsLive,
        states: JobStates,
        worktrees: WorktreeRemover,
        tasks: Sequence[GcTask] = (),
        limits: GcLimits = DEFAULT_LIMITS,
    ) -> None:
        """`is_live` returns whether a job has a run here, or may have one."""
        self._data_dir = data_dir
        self._is_live = is_live
        self._states = states
        self._worktrees = worktrees
        self._tasks = tuple(tasks)
        self._limits = limits

    async def collect(self, now: datetime, *, dry_run: bool = False) -> GcReport:
        """Collect once; report what cannot be removed and continue with the rest."""
        local = await self._local(now, dry_run=dry_run)
        others = [await task.collect(now, dry_run=dry_run) for task in self._tasks]
        return merge_reports([local, *others], dry_run=dry_run)

    async def _local(self, now: datetime, *, dry_run: bool) -> GcReport:
        data_dir, limits = self._data_dir, self._limits
        states, notes = await self._home_states()
        items = [
            await self._worktree(each, dry_run=dry_run) for each in _entries(data_dir.worktrees)
        ]
        old = now - limits.home
        items += [
            await self._home(each, old, states, dry_run=dry_run)
            for each in _entries(data_dir.homes)
        ]
        items += await self._all_old("log", data_dir.logs, now - limits.log, dry_run=dry_run)
        old = now - limits.quarantine
        items += await self._all_old("quarantine", data_dir.quarantine, old, dry_run=dry_run)
        return GcReport(swept=tuple(each for each in items if each is not None), notes=notes)

    async def _home_states(self) -> tuple[Mapping[str, JobState] | None, tuple[str, ...]]:
        """Return the states of the jobs with homes here; None if they cannot be looked up."""
        names = (parse_folder_name(folder.name) for folder in _entries(self._data_dir.homes))
        job_ids = frozenset(name for name in names if name is not None)
        if not job_ids:
            return {}, ()
        try:
            return await self._states.look_up(job_ids), ()
        except Refused as refused:
            return None, (f"homes were skipped, as their jobs are unknown: {refused.detail}",)

    async def _worktree(self, folder: Path, *, dry_run: bool) -> GcItem | None:
        job_id = parse_folder_name(folder.name)
        if job_id is None:
            return kept_item("worktree", folder.name, "its name is not that of a job")
        # List the runs before asking which are live: a run that starts now must not look dead.
        noted = [run for run in run_registry.load_runs(self._data_dir) if run.job_id == job_id]
        if self._is_live(job_id):
            return None
        size = await asyncio.to_thread(tree_size, folder)
        try:
            unsaved = await self._worktrees.discard(folder, dry_run=dry_run)
        except (OSError, Refused) as error:
            return kept_item("worktree", folder.name, f"it cannot be removed: {error}")
        if unsaved is not None:
            reason = f"it has work that is saved nowhere else: {unsaved}"
            return kept_item("worktree", folder.name, reason)
        if not dry_run:
            for run in noted:
                run_registry.unregister(self._data_dir, run.run_id)
        return removed_item("worktree", folder.name, "its job has no run here", size)

    async def _home(
        self,
        folder: Path,
        before: datetime,
        states: Mapping[str, JobState] | None,
        *,
        dry_run: bool,
    ) -> GcItem | None:
        job_id = parse_folder_name(folder.name)
        if states is None or job_id is None:
            return None
        state = states.get(job_id)
        if state is None:
            return await self._unknown_home(folder, before)
        # A session is resumed from the home, so it stays until the job has ended.
        if not state.finished:
            return None
        item = await self._old("home", folder, before, dry_run=dry_run)
        if item is not None and item.did == "removed" and not dry_run:
            self._data_dir.session_file(job_id).unlink(missing_ok=True)
        return item

    async def _unknown_home(self, folder: Path, before: datetime) -> GcItem | None:
        touched = await asyncio.to_thread(last_modified, folder)
        if touched >= before.timestamp():
            return None
        return kept_item("home", folder.name, "its job is unknown; remove it if you do not need it")

    async def _all_old(
        self, kind: Kind, place: Path, before: datetime, *, dry_run: bool
    ) -> list[GcItem | None]:
        entries = _entries(place)
        return [await self._old(kind, path, before, dry_run=dry_run) for path in entries]

    async def _old(
        self, kind: Kind, path: Path, before: datetime, *, dry_run: bool
    ) -> GcItem | None:
        job_id = parse_folder_name(path.name)
        touched = await asyncio.to_thread(last_modified, path)
        if touched >= before.timestamp() or (job_id is not None and self._is_live(job_id)):
            return None
        size = await asyncio.to_thread(tree_size, path)
        if not dry_run:
            try:
                await asyncio.to_thread(remove_tree, path)
            except OSError as error:
                return kept_item(kind, path.name, f"it cannot be removed: {error}")
        return removed_item(kind, path.name, f"not touched since {before:%Y-%m-%d}", size)


def _entries(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    yield from (entry for entry in entries if not entry.name.startswith("."))
