"""Records of worker reports and their results."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Checkpoint, Result, Stage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.repo import ref
from gigafactory.wire.fields import Count, Epoch, JobId, RequestDoc, ResponseView, Sentence, Word
from gigafactory.wire.jobs import JobView
from gigafactory.wire.limits import REPORTS_MAX
from gigafactory.wire.problem import Problem
from gigafactory.wire.runs import UsageDoc

DOC_BYTES_MAX = 256 * 1024


SECONDS_MAX = 30 * 86_400.0


CPU_SECONDS_MAX = 1000 * SECONDS_MAX


Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX, description="seconds")]


Document = dict[str, Any]


Commit = Annotated[
    str,
    Meta(pattern=r"^[0-9a-f]{1,64}$(?!\n)", examples=["4f2a91c0d3e5b7a8f6c1d2e3b4a5968778695a4b"]),
]
"""A git commit; like every word of a checkpoint, it ends up in the arguments of programs."""
Plain = Annotated[str, Meta(pattern=r"^[^\-\x00-\x20\x7f][^\x00-\x1f\x7f]{0,199}$(?!\n)")]
"""A word that is not an option."""


Versions = Annotated[
    dict[Word, Word], Meta(max_length=100, examples=[{"claude": "2.1.197", "git": "2.47.3"}])
]


class CheckpointDoc(RequestDoc, frozen=True, kw_only=True):
    """Where the work in progress is stored."""

    branch: Word
    commit: Commit
    engine: Plain | None = None
    session_id: Plain | None = None
    factory_id: Plain | None = None
    """Ignored: it is the factory that reports."""

    @classmethod
    def from_domain(cls, checkpoint: Checkpoint) -> "CheckpointDoc":
        """Return the wire record of a checkpoint."""
        return cls(
            branch=checkpoint.branch,
            commit=checkpoint.commit,
            engine=checkpoint.engine,
            session_id=checkpoint.session_id,
            factory_id=checkpoint.factory_id,
        )

    def to_domain(self) -> Checkpoint:
        """Return the domain record.

        Raises Invalid for a branch that git would not accept.
        """
        try:
            ref(self.branch)
        except ValueError as expected:
            fault = Fault("checkpoint.branch", f"found {self.branch!r}; expected {expected}")
            raise Invalid("the report", [fault]) from None
        return Checkpoint(
            branch=self.branch,
            commit=self.commit,
            engine=self.engine,
            session_id=self.session_id,
            factory_id=self.factory_id,
        )


class ReportDoc(RequestDoc, frozen=True, kw_only=True):
    """A report under a lease; `stage` is the requested next stage, none: the run continues."""

    lease_epoch: Epoch
    stage: Stage | None = None
    result: Result | None = None
    reason: Sentence | None = None
    checkpoint: CheckpointDoc | None = None
    usage: UsageDoc | None = None
    verify: Document | None = None
    """`passed`, and the output."""
    diff: Document | None = None
    """Diff statistics, and paths that are `protected` or `outOfScope`."""
    note: Sentence | None = None
    retry_after: Seconds | None = None
    versions: Versions | None = None
    """Versions of the engine and of the tools that the run uses."""
    wall_sec: Seconds | None = None
    cpu_sec: Annotated[float, Meta(ge=0, le=CPU_SECONDS_MAX)] | None = None
    edited_lines: Count | None = None
    """When shipping: lines that people changed after the run."""

    @classmethod
    def from_domain(cls, report: Report) -> "ReportDoc":
        """Return the wire record of a report."""
        wait, checkpoint, usage = report.retry_after, report.checkpoint, report.usage
        return cls(
            lease_epoch=report.epoch,
            stage=report.stage,
            result=report.result,
            reason=report.reason,
            checkpoint=None if checkpoint is None else CheckpointDoc.from_domain(checkpoint),
            usage=None if usage is None else UsageDoc.from_domain(usage),
            verify=report.verify,
            diff=report.diff,
            note=report.note,
            retry_after=None if wait is None else wait.total_seconds(),
            versions=report.versions,
            wall_sec=report.wall_sec,
            cpu_sec=report.cpu_sec,
            edited_lines=report.edited_lines,
        )

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON members that are set, except the epoch."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        del members["leaseEpoch"]
        return members

    def to_domain(self, job_id: str) -> Report:
        """Return the domain report.

        Raises Invalid.
        """
        _require_small("verify", self.verify)
        _require_small("diff", self.diff)
        return Report(
            job_id=job_id,
            epoch=self.lease_epoch,
            stage=self.stage,
            result=self.result,
            reason=self.reason,
            checkpoint=self.checkpoint.to_domain() if self.checkpoint else None,
            usage=self.usage.to_domain() if self.usage else None,
            verify=self.verify,
            diff=self.diff,
            note=self.note,
            retry_after=None if self.retry_after is None else timedelta(seconds=self.retry_after),
            versions=self.versions,
            wall_sec=self.wall_sec,
            cpu_sec=self.cpu_sec,
            edited_lines=self.edited_lines,
        )


class NamedReportDoc(ReportDoc, frozen=True, kw_only=True):
    """A report with its job, as part of a batch."""

    job_id: JobId


class ReportsDoc(RequestDoc, frozen=True, kw_only=True):
    """Up to 500 reports; those of one job are applied in order."""

    reports: Annotated[list[NamedReportDoc], Meta(max_length=REPORTS_MAX)]


class FailDoc(RequestDoc, frozen=True, kw_only=True):
    """Report of a failed run; its lease ends at once."""

    job_id: JobId
    lease_epoch: Epoch
    result: Result
    reason: Sentence
    retry_after: Seconds | None = None
    checkpoint: CheckpointDoc | None = None
    usage: UsageDoc | None = None

    def to_domain(self) -> Report:
        """Return the domain report.

        Raises Invalid.
        """
        report = ReportDoc(
            lease_epoch=self.lease_epoch,
            stage=Stage.FAILED,
            result=self.result,
            reason=self.reason,
            checkpoint=self.checkpoint,
            usage=self.usage,
            retry_after=self.retry_after,
        )
        return report.to_domain(self.job_id)


def _require_small(field: str, document: Document | None) -> None:
    if document is None:
        return
    size = len(msgspec.json.encode(document))
    if size > DOC_BYTES_MAX:
        message = f"has {size} bytes; expected at most {DOC_BYTES_MAX}; send long output as log"
        raise Invalid("the report", [Fault(field, message)])


class ReportResultView(ResponseView, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one report: the job, or the problem."""

    status: int
    job: JobView | None = None
    problem: Problem | None = None


class ReportResultsView(ResponseView, frozen=True, kw_only=True):
    """The result of each report, in order."""

    results: tuple[ReportResultView, ...]
