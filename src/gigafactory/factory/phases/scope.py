"""Scope: what was changed, and whether the job may change it; judged on the diff alone."""

from gigafactory.domain.job import Result
from gigafactory.domain.scope import matches, outside
from gigafactory.factory.assignment import Outcome
from gigafactory.factory.run import Run

FILES_TOLD_MAX = 500


async def scope(run: Run) -> Outcome | None:
    """Compare the work with what the job may change, and note what was changed."""
    changes = await run.changes()
    if changes is None:
        return None
    manifest = run.assignment.manifest
    paths = list(changes.paths)
    strange = outside(paths, manifest.allowed_scope) if manifest.allowed_scope else ()
    guarded = [path for path in paths if matches(path, run.assignment.protected)]
    run.findings.diff = {
        "filesChanged": len(changes.files),
        "linesAdded": changes.added,
        "linesDeleted": changes.deleted,
        "files": paths[:FILES_TOLD_MAX],
        "protected": guarded[:FILES_TOLD_MAX],
        "outOfScope": list(strange[:FILES_TOLD_MAX]),
    }
    if strange and manifest.scope_enforcement != "warn":
        shown = ", ".join(strange[:5]) + (" …" if len(strange) > 5 else "")  # noqa: PLR2004
        return Outcome(
            result=Result.SCOPE_VIOLATION, reason=f"changed outside of allowed-scope: {shown}"
        )
    return None
