"""Crash recovery: ends processes of runs that died, and quarantines their work."""

import asyncio
from pathlib import Path

import structlog

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.git.workspace import (
    copy_folder,
    folder_lock,
    remove_folder,
    write_patch,
)
from gigafactory.factory.git.worktree import Worktree
from gigafactory.factory.process import cgroups as control_groups
from gigafactory.factory.process import orphans
from gigafactory.factory.process.cgroups import ControlGroups
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.run_registry import RegisteredRun

log = structlog.get_logger()


async def recover_from_crash(
    data_dir: DataDir, mirrors: Mirrors, repos: Repos, groups: ControlGroups | None = None
) -> None:
    """Recover from a crash of an earlier factory process in this data folder.

    Only one factory process may use the folder. Work that cannot be quarantined now is left for the
    next start.
    """
    for run in run_registry.load_runs(data_dir):
        swept = await orphans.kill_orphans(run.mark)
        if groups is not None:
            await control_groups.kill_and_remove(groups.path_of(run.mark))
        for orphan in (*swept.killed, *swept.survived):
            log.warning("process left by a dead run", run=run.run_id, command=orphan.command)
        try:
            mirror = await _open_mirror(run, mirrors, repos)
            await quarantine_dead_run(data_dir, run, mirror)
        except (OSError, Refused) as trouble:
            log.warning(
                "dead run not cleaned up; retrying at the next start",
                run=run.run_id,
                reason=str(trouble),
            )


async def quarantine_dead_run(data_dir: DataDir, run: RegisteredRun, mirror: Mirror | None) -> None:
    """Quarantine the work of a dead run, if any, and remove its worktree.

    Raises GitFailed, WorktreeTaken, OSError.
    """
    path = data_dir.worktree(run.job_id)
    aside = data_dir.quarantine_folder(run.job_id, run.epoch)
    if mirror is None:
        if path.exists():
            await asyncio.to_thread(copy_folder, path, aside)
            await asyncio.to_thread(remove_folder, path)
            folder_lock(path).unlink(missing_ok=True)
    elif (left := Worktree.open(mirror, path)) is not None:
        try:
            await write_patch(left, left.commit, aside)
            await left.remove()
        finally:
            left.close()
    if run.tmp is not None:
        await asyncio.to_thread(remove_tree, Path(run.tmp))
    run_registry.unregister(data_dir, run.run_id)


async def _open_mirror(run: RegisteredRun, mirrors: Mirrors, repos: Repos) -> Mirror | None:
    if run.repo is None:
        return None
    return await mirrors.open(repos.address(run.repo), fetch=False)
