"""Artifacts phase: uploads the files that the manifest names, also after a failed run."""

import asyncio

from gigafactory.domain.errors import Fenced, NotFound, Refused
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.retry import UNCOUNTED_RESULTS
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.artifact_files import ArtifactRejected, capture, find_artifacts
from gigafactory.factory.run.upload import UploadAborted, await_upload
from gigafactory.factory.secrets.redaction import redact
from gigafactory.system.threads import open_in_thread

FILES_MAX = 100
FILE_BYTES_MAX = 256 * 1024 * 1024
BYTES_MAX = 1024 * 1024 * 1024
UPLOAD_TIMEOUT_S = 15 * 60.0
"""How long to wait for an unreachable coordinator."""
MESSAGES_MAX = 20
"""Upper limit of log lines about skipped files."""


def should_upload(run: ActiveRun, outcome: RunOutcome) -> bool:
    """Return whether this attempt ends here and has artifacts; other runs continue elsewhere."""
    return (
        run.assignment.step is Step.RUN
        and run.workspace is not None
        and bool(run.assignment.manifest.artifacts)
        and run.stop.reason not in {StopReason.FENCED, StopReason.CANCELLED}
        and outcome.result not in UNCOUNTED_RESULTS
    )


async def upload_artifacts(run: ActiveRun) -> str | None:
    """Upload the artifacts of the manifest; return None, or why the upload is incomplete."""
    run.log_line("phase: artifacts")
    try:
        return await await_upload(run, _upload_all(run), within_s=UPLOAD_TIMEOUT_S)
    except UploadAborted as given_up:
        return str(given_up)


def outcome_without_artifacts(run: ActiveRun, outcome: RunOutcome, why: str) -> RunOutcome:
    """Return the outcome of a run without its artifacts: failed, if they are its only result."""
    run.log_line(f"artifacts are missing: {why}")
    if not outcome.succeeded or run.assignment.manifest.ship != "none":
        return outcome
    reason = f"the artifacts are its only result, and were not uploaded: {why}"
    return RunOutcome(result=Result.OVERLOADED, reason=reason)


async def _upload_all(run: ActiveRun) -> str | None:
    matches = await asyncio.to_thread(
        find_artifacts, run.worktree, run.assignment.manifest.artifacts
    )
    words = [f"nothing matches {glob}" for glob in matches.missing]
    words += [f"{name} is skipped: {why}" for name, why in matches.skipped]
    if len(matches.names) > FILES_MAX:
        words.append(
            f"{len(matches.names) - FILES_MAX} files are skipped: at most {FILES_MAX} are uploaded"
        )
    left = BYTES_MAX
    for name in matches.names[:FILES_MAX]:
        try:
            left -= await _upload_one(run, name, left)
        except (ArtifactRejected, Refused) as refused:
            words.append(f"{name} is skipped: {refused}")
        if run.stop.reason is StopReason.FENCED:
            return "the lease was taken away"
    for word in words[:MESSAGES_MAX]:
        run.log_line(f"artifact: {word}")
    if len(words) > MESSAGES_MAX:
        run.log_line(f"artifact: {len(words) - MESSAGES_MAX} more messages omitted")
    return None


async def _upload_one(run: ActiveRun, name: str, left: int) -> int:
    """Upload one file and return its size.

    Raises ArtifactRejected, Refused.
    """
    secrets = run.equipment.secrets
    if redact(name, secrets) != name:
        raise ArtifactRejected("its name contains a secret")
    root = run.equipment.data_dir.root
    bytes_max = min(FILE_BYTES_MAX, left)
    taken = await open_in_thread(capture, run.worktree, name, secrets, root, bytes_max=bytes_max)
    with taken as file:
        try:
            await run.reporter.add_artifact(file)
        except (Fenced, NotFound):
            run.stop_fenced()
            return 0
        line = f"artifact: {name}, {file.size} bytes"
        run.log_line(f"{line}; secrets were redacted" if file.redacted else line)
        return file.size
