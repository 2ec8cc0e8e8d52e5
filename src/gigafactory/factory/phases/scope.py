"""Scope: what was changed, and whether the job may change it; judged on the diff alone."""

from collections.abc import Sequence

from gigafactory.domain.job.job import PROTECTED, Result
from gigafactory.domain.manifest.scope import matches_any, paths_outside
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.diff import Diff
from gigafactory.factory.run.active_run import ActiveRun

FILES_TOLD_MAX = 500
SHOWN_MAX = 5


async def check_scope(run: ActiveRun) -> RunOutcome | None:
    """Compare the work with what the job may change, and note what was changed."""
    return _violation(run, await record_changes(run))


async def record_changes(run: ActiveRun) -> Sequence[str]:
    """Note what the run has changed; gives what of it the job may not change."""
    changes = await run.changes()
    return () if changes is None else record_diff(run, changes)


def check_pushed_commit(run: ActiveRun, changes: Diff) -> RunOutcome | None:
    """Judge the very commit that is about to be pushed: a verify can change files too."""
    return _violation(run, record_diff(run, changes))


def check_shipped_commit(run: ActiveRun, changes: Diff) -> RunOutcome | None:
    """Judge the commit that is about to be shipped, as if nobody had ever judged it.

    What a reviewer let pass may pass; what somebody should have looked at, and nobody did, is told
    and waits for a person.
    """
    strange = record_diff(run, changes)
    if run.assignment.result is not Result.SCOPE_VIOLATION and (no := _violation(run, strange)):
        return no
    guarded = [path for path in changes.paths if matches_any(path, run.assignment.protected_globs)]
    if guarded and PROTECTED not in run.assignment.flags:
        reason = f"changed protected paths that nobody was asked about: {_format_paths(guarded)}"
        return RunOutcome(
            result=Result.SCOPE_VIOLATION, reason=f"{reason}; look at them, then ship it again"
        )
    # The run has told it already.
    run.findings.diff = None
    return None


def _violation(run: ActiveRun, strange: Sequence[str]) -> RunOutcome | None:
    if not strange or run.assignment.manifest.scope_enforcement == "warn":
        return None
    return RunOutcome(
        result=Result.SCOPE_VIOLATION,
        reason=f"changed outside of allowed-scope: {_format_paths(strange)}",
    )


def _format_paths(paths: Sequence[str]) -> str:
    return ", ".join(paths[:SHOWN_MAX]) + (" …" if len(paths) > SHOWN_MAX else "")


def record_diff(run: ActiveRun, changes: Diff) -> Sequence[str]:
    """Note what was changed; gives what of it the job may not change."""
    manifest = run.assignment.manifest
    paths = list(changes.paths)
    strange = paths_outside(paths, manifest.allowed_scope) if manifest.allowed_scope else ()
    guarded = [path for path in paths if matches_any(path, run.assignment.protected_globs)]
    run.findings.diff = {
        "filesChanged": len(changes.files),
        "linesAdded": changes.added,
        "linesDeleted": changes.deleted,
        "files": paths[:FILES_TOLD_MAX],
        "protected": guarded[:FILES_TOLD_MAX],
        "outOfScope": list(strange[:FILES_TOLD_MAX]),
    }
    return strange
