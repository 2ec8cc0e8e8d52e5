"""Scope phase: checks the changed paths against the allowed scope of the job."""

import asyncio
from collections.abc import Sequence

from gigafactory.domain.job.job import PROTECTED, Result
from gigafactory.domain.manifest.scope import matches_any, paths_outside
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.diff import Diff
from gigafactory.factory.run.active_run import ActiveRun

FILES_TOLD_MAX = 500
SHOWN_MAX = 5


async def check_scope(run: ActiveRun) -> RunOutcome | None:
    """Record the changes, and check them against the allowed scope."""
    return _violation(run, await record_changes(run))


async def record_changes(run: ActiveRun) -> Sequence[str]:
    """Record the changes of the run; return paths outside of its scope."""
    changes = await run.changes()
    return () if changes is None else await record_diff(run, changes)


async def check_pushed_commit(run: ActiveRun, changes: Diff) -> RunOutcome | None:
    """Check the commit that is about to be pushed: verify commands can change files too."""
    return _violation(run, await record_diff(run, changes))


async def check_shipped_commit(run: ActiveRun, changes: Diff) -> RunOutcome | None:
    """Check the commit that is about to be shipped, independent of earlier checks.

    Violations that a reviewer approved may pass. Protected paths that no one was asked about need a
    review.
    """
    outside = await record_diff(run, changes)
    if run.assignment.result is not Result.SCOPE_VIOLATION and (
        violation := _violation(run, outside)
    ):
        return violation
    guarded = await asyncio.to_thread(_guarded, run, changes)
    if guarded and PROTECTED not in run.assignment.flags:
        reason = f"changed protected paths without a review: {_format_paths(guarded)}"
        return RunOutcome(
            result=Result.SCOPE_VIOLATION, reason=f"{reason}; review them, then ship again"
        )
    # The earlier run has reported the diff already.
    run.findings.diff = None
    return None


def _violation(run: ActiveRun, outside: Sequence[str]) -> RunOutcome | None:
    if not outside or run.assignment.manifest.scope_enforcement == "warn":
        return None
    return RunOutcome(
        result=Result.SCOPE_VIOLATION,
        reason=f"changed paths outside of allowed-scope: {_format_paths(outside)}",
    )


def _format_paths(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN_MAX]) + (" …" if len(paths) > SHOWN_MAX else "")


async def record_diff(run: ActiveRun, changes: Diff) -> Sequence[str]:
    """Record the diff; return paths outside of the allowed scope."""
    # In a thread: a job may have changed very many files, and have very many globs.
    outside, guarded = await asyncio.gather(
        asyncio.to_thread(_outside, run, changes), asyncio.to_thread(_guarded, run, changes)
    )
    paths = list(changes.paths)
    run.findings.diff = {
        "filesChanged": len(changes.files),
        "linesAdded": changes.added,
        "linesDeleted": changes.deleted,
        "files": paths[:FILES_TOLD_MAX],
        "protected": guarded[:FILES_TOLD_MAX],
        "outOfScope": list(outside[:FILES_TOLD_MAX]),
    }
    return outside


def _outside(run: ActiveRun, changes: Diff) -> Sequence[str]:
    allowed = run.assignment.manifest.allowed_scope
    return paths_outside(changes.paths, allowed) if allowed else ()


def _guarded(run: ActiveRun, changes: Diff) -> list[str]:
    return [path for path in changes.paths if matches_any(path, run.assignment.protected_globs)]
