"""Crash recovery: ends processes of runs that died, and quarantines their work."""

import asyncio
from pathlib import Path

import structlog
from msgspec.structs import replace

from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Result, Stage
from gigafactory.domain.job.worker_report import Report
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
from gigafactory.factory.reporting.outbox import Outbox
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.run_registry import RegisteredRun
from gigafactory.wire.reports import ReportDoc

RECOVERIES_MAX = 2

log = structlog.get_logger()


async def recover_from_crash(
    data_dir: DataDir, mirrors: Mirrors, repos: Repos, groups: ControlGroups | None = None
) -> None:
    """Recover from a crash of an earlier factory process in this data folder.

    Only one factory process may use the folder. Work that cannot be quarantined now is left for the
    next start. A run whose recovery has killed or hung this process before is set aside.
    """
    for run in run_registry.load_runs(data_dir):
        if not begin_recovery(data_dir, run):
            _report_set_aside(data_dir, run)
            continue
        killed = await orphans.kill_orphans(run.mark)
        if groups is not None:
            await control_groups.kill_and_remove(groups.path_of(run.mark))
        for orphan in (*killed.killed, *killed.survived):
            log.warning("process left by a dead run", run=run.run_id, command=orphan.command)
        try:
            mirror = await _open_mirror(run, mirrors, repos)
            await quarantine_dead_run(data_dir, run, mirror)
        except (OSError, Refused) as trouble:
            # It did no harm: the next start tries again, as often as it takes.
            run_registry.register(data_dir, run)
            log.warning(
                "dead run not cleaned up; retrying at the next start",
                run=run.run_id,
                reason=str(trouble),
            )


def begin_recovery(data_dir: DataDir, run: RegisteredRun) -> bool:
    """Count a recovery on disk before it begins, and return whether it may begin.

    After two that killed or hung this process, the worktree is moved to the quarantine as it is,
    and the run is forgotten.
    """
    if run.recoveries < RECOVERIES_MAX:
        run_registry.register(data_dir, replace(run, recoveries=run.recoveries + 1))
        return True
    quarantine = data_dir.quarantine_folder(run.job_id, run.epoch)
    log.error(
        "run set aside: its recovery killed the factory", run=run.run_id, work=str(quarantine)
    )
    place = data_dir.worktree(run.job_id)
    if place.exists() and not quarantine.exists():
        quarantine.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.rename(quarantine)
        folder_lock(place).unlink(missing_ok=True)
    run_registry.unregister(data_dir, run.run_id)
    return False


def _report_set_aside(data_dir: DataDir, run: RegisteredRun) -> None:
    reason = (
        f"the factory died {run.recoveries} times while it recovered this run, and has set it"
        " aside; look at its work in the factory's quarantine before requeueing the job"
    )
    report = Report(
        job_id=run.job_id,
        epoch=run.epoch,
        stage=Stage.FAILED,
        result=Result.CRASH,
        reason=reason,
    )
    outbox = Outbox(data_dir.outbox)
    outbox.put(run.job_id, run.epoch, ReportDoc.from_domain(report).fields, last=True)


async def quarantine_dead_run(data_dir: DataDir, run: RegisteredRun, mirror: Mirror | None) -> None:
    """Quarantine the work of a dead run, if any, and remove its worktree.

    Raises GitFailed, WorktreeTaken, OSError.
    """
    path = data_dir.worktree(run.job_id)
    quarantine = data_dir.quarantine_folder(run.job_id, run.epoch)
    if mirror is None:
        if path.exists():
            await asyncio.to_thread(copy_folder, path, quarantine)
            await asyncio.to_thread(remove_folder, path)
            folder_lock(path).unlink(missing_ok=True)
    elif (left := Worktree.open(mirror, path)) is not None:
        try:
            await write_patch(left, left.commit, quarantine)
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
