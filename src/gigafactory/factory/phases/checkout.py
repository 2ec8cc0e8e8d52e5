"""Checkout phase: a worktree of the job, from its base or from its checkpoint."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.branch_sealing import seal_earlier_branches
from gigafactory.factory.git.errors import GitNotFound
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.reverts import report_reverts
from gigafactory.factory.git.workspace import PlainFolder, RepoWorkspace
from gigafactory.factory.git.worktree import Worktree, WorktreeBusy
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.in_place import open_in_place, repo_address
from gigafactory.factory.run.unsaved_work import commit_unsaved_work, quarantine_earlier_runs


async def checkout_base(run: ActiveRun) -> RunOutcome | None:
    """Check out the current base for an acceptance check; without a repo, make an empty folder.

    Raises SandboxUnavailable if the job cannot be confined as it requires.
    """
    manifest = run.assignment.manifest
    run.equipment.sandbox.policy_for(manifest.sandbox, yolo=bool(manifest.yolo))
    run.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = run.equipment.data_dir.worktree(run.assignment.job_id)
    address = None if manifest.repo is None else repo_address(run)
    if address is None:
        run.workspace = await retry_while_busy(open_plain_folder, path)
        return None
    mirror = await run.equipment.mirrors.open(address)
    branch = manifest.base or await mirror.default_branch()
    base = await mirror.resolve(branch)
    worktree = await retry_while_busy(Worktree.add, mirror, path, base)
    run.workspace = RepoWorkspace(
        worktree, run.assignment, base_branch=branch, base=base, elsewhere=base
    )
    run.log_line(f"checks {branch} ({base[:12]})")
    return None


BUSY_MAX_S = 120.0
LOOKS_EVERY_S = 0.2

T = TypeVar("T")


async def checkout(run: ActiveRun) -> RunOutcome | None:
    """Check out the folder in which the engine works, and save its first checkpoint.

    Raises SandboxUnavailable if the job cannot be confined as it requires.
    """
    manifest = run.assignment.manifest
    run.equipment.sandbox.policy_for(manifest.sandbox, yolo=bool(manifest.yolo))
    run.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = run.equipment.data_dir.worktree(run.assignment.job_id)
    cwd = run.assignment.manifest.cwd
    if cwd is not None:
        run.workspace = await retry_while_busy(open_in_place, run, cwd)
        if isinstance(run.workspace, RepoWorkspace):
            await seal_earlier_branches(run.workspace.mirror, run.assignment)
        await run.save_checkpoint()
        return None
    address = repo_address(run)
    if address is None:
        run.workspace = await retry_while_busy(open_plain_folder, path)
        return None
    mirror = await run.equipment.mirrors.open(address)
    branch = run.assignment.manifest.base or await mirror.default_branch()
    base = tip = await mirror.resolve(branch)
    left = await retry_while_busy(commit_unsaved_work, mirror, run)
    start = left or await _checkpoint_commit(run, mirror) or base
    if start != base:
        base = await _fork_point(mirror, base, start)
    await retry_while_busy(quarantine_earlier_runs, mirror, run)
    await seal_earlier_branches(mirror, run.assignment)
    worktree = await retry_while_busy(Worktree.add, mirror, path, start)
    run.workspace = RepoWorkspace(
        worktree,
        run.assignment,
        base_branch=branch,
        base=base,
        elsewhere=None if left else start,
        secrets=run.equipment.secrets,
    )
    await report_reverts(run.reporter, mirror, tip)
    run.log_line(
        f"works on {branch} ({base[:12]})" + (f" from {start[:12]}" if start != base else "")
    )
    await run.save_checkpoint()
    return None


async def retry_while_busy(step: Callable[..., Awaitable[T]], *given: object) -> T:
    """Retry a step while the worktree is locked, for example by garbage collection.

    Raises WorktreeBusy if it stays locked.
    """
    give_up_at = time.monotonic() + BUSY_MAX_S
    while True:
        try:
            return await step(*given)
        except WorktreeBusy:
            if time.monotonic() > give_up_at:
                raise
        await asyncio.sleep(LOOKS_EVERY_S)


async def open_plain_folder(path: Path) -> PlainFolder:
    """Open an empty folder for a run without a repo."""
    return PlainFolder(path)


async def _checkpoint_commit(run: ActiveRun, mirror: Mirror) -> str | None:
    """Return the commit of the checkpoint, fetched if needed; None if it no longer exists."""
    checkpoint = run.assignment.checkpoint
    if checkpoint is None:
        return None
    if await mirror.has_commit(checkpoint.commit):
        return checkpoint.commit
    try:
        await mirror.fetch_branch(checkpoint.branch)
    except GitNotFound:
        run.log_line(f"the checkpoint {checkpoint.branch} no longer exists; starting from the base")
        return None
    return checkpoint.commit if await mirror.has_commit(checkpoint.commit) else None


async def _fork_point(mirror: Mirror, base: str, start: str) -> str:
    """Return the commit where the work left the base branch."""
    output = await mirror.run("merge-base", base, start, codes=(0, 1))
    return output.text.strip() or base


async def remove_checkout(run: ActiveRun, outcome: RunOutcome) -> bool:
    """Remove the checkout unless it has unsaved work; return whether it was removed."""
    if run.workspace is None:
        return True
    if outcome.succeeded or run.is_saved:
        await run.workspace.remove()
        return True
    run.workspace.close()
    return False
