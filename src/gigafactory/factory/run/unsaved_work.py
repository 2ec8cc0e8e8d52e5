"""Resumes work that an earlier run of a job could save only on this machine."""

from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.secret_scan import SecretInWork, refuse_secrets
from gigafactory.factory.git.worktree import Worktree
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.crash_recovery import quarantine_dead_run
from gigafactory.factory.run.run_registry import RegisteredRun


async def commit_unsaved_work(mirror: Mirror, run: ActiveRun) -> str | None:
    """Commit unsaved work of an earlier run onto the checkpoint; None if there is none.

    Returns None also if the job has continued on another machine. Raises WorktreeBusy.
    """
    checkpoint = run.assignment.checkpoint
    if checkpoint is None or checkpoint.factory_id != run.equipment.factory_id:
        return None
    if not await mirror.has_commit(checkpoint.commit):
        return None
    for earlier in _earlier_runs(run):
        left = Worktree.open(mirror, run.equipment.data_dir.worktree(earlier.job_id))
        if left is not None:
            return await _commit(left, checkpoint.commit, run)
    return None


async def quarantine_earlier_runs(mirror: Mirror, run: ActiveRun) -> None:
    """Quarantine the work that earlier runs of this job left on this machine.

    Raises GitFailed, WorktreeTaken, OSError.
    """
    for earlier in _earlier_runs(run):
        await quarantine_dead_run(run.equipment.data_dir, earlier, mirror)


async def _commit(left: Worktree, parent: str, run: ActiveRun) -> str | None:
    try:
        commit = (await left.snapshot(parent)).commit
        if commit is not None:
            await refuse_secrets(left.mirror, parent, commit, run.equipment.secrets)
            run.log_line("resumes the unsaved work of an earlier run")
    except (GitFailed, SecretInWork) as trouble:
        run.log_line(f"cannot resume the unsaved work of an earlier run: {trouble}")
        return None
    else:
        return commit
    finally:
        left.close()


def _earlier_runs(run: ActiveRun) -> list[RegisteredRun]:
    job = run.assignment
    noted = run_registry.load_runs(run.equipment.data_dir)
    return [each for each in noted if each.job_id == job.job_id and each.run_id != job.run_id]
