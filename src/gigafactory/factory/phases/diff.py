"""Diff phase: uploads the changes of a run for review."""

import hashlib
from collections.abc import Iterator

import msgspec

from gigafactory.domain.errors import Fenced, NotFound, Refused
from gigafactory.domain.job.artifact import Purpose
from gigafactory.domain.job.diff import MEDIA_TYPE, NAME
from gigafactory.domain.job.job import Step
from gigafactory.domain.job.retry import UNCOUNTED_RESULTS
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.git.diff import review_diff
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.workspace import RepoWorkspace
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.upload import UploadAborted, await_upload

UPLOAD_TIMEOUT_S = 2 * 60.0
"""How long to wait for an unreachable coordinator. The work itself is saved without the diff."""


class DiffFile:
    """A diff as an uploadable file."""

    def __init__(self, data: bytes) -> None:
        self.name, self.media_type, self.purpose = NAME, MEDIA_TYPE, Purpose.DIFF
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def pieces(self) -> Iterator[bytes]:
        yield self._data


def should_upload(run: ActiveRun, outcome: RunOutcome) -> bool:
    """Return whether the work may be reviewed as it is; other runs continue elsewhere."""
    return (
        run.assignment.step is Step.RUN
        and isinstance(run.workspace, RepoWorkspace)
        and run.findings.checkpoint is not None
        and run.stop.reason not in {StopReason.FENCED, StopReason.CANCELLED}
        and outcome.result not in UNCOUNTED_RESULTS
    )


async def upload_run_diff(run: ActiveRun) -> None:
    """Upload the diff of the run."""
    workplace, checkpoint = run.workspace, run.findings.checkpoint
    assert isinstance(workplace, RepoWorkspace)
    assert checkpoint is not None
    await upload_diff(run, workplace.mirror, workplace.base, checkpoint.commit)


async def upload_diff(run: ActiveRun, mirror: Mirror, base: str, commit: str) -> None:
    """Upload the diff of a commit; a failed upload does not fail the run."""
    try:
        await await_upload(run, _upload(run, mirror, base, commit), within_s=UPLOAD_TIMEOUT_S)
    except (Fenced, NotFound):
        run.stop_fenced()
    except (UploadAborted, Refused) as why:
        run.log_line(f"the diff was not uploaded: {why}")


async def _upload(run: ActiveRun, mirror: Mirror, base: str, commit: str) -> None:
    diff = await review_diff(mirror, base, commit, run.equipment.secrets)
    if not diff.files_changed:
        return
    run.log_line(f"diff: {diff.summary}")
    await run.reporter.add_artifact(DiffFile(msgspec.json.encode(diff)))
