"""A worker's report on its run, and the job change that follows from it."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job import run_outcome as outcome
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Checkpoint, Job, Result, Stage
from gigafactory.domain.job.run import Run, Usage, end_run


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One fenced report; `stage` says what the worker wants next, None that the run goes on."""

    job_id: str
    epoch: int
    stage: Stage | None = None
    result: Result | None = None
    reason: str | None = None
    checkpoint: Checkpoint | None = None
    usage: Usage | None = None
    verify: dict[str, Any] | None = None
    diff: dict[str, Any] | None = None
    note: str | None = None
    retry_after: timedelta | None = None
    versions: dict[str, str] | None = None
    wall_sec: float | None = None
    cpu_sec: float | None = None
    edited_lines: int | None = None
    """From a ship step: lines that people changed after the run had ended."""

    @property
    def progress(self) -> outcome.Progress:
        """The reported progress, without the stage."""
        return outcome.Progress(
            checkpoint=self.checkpoint,
            usage=self.usage,
            verify=self.verify,
            diff=self.diff,
            note=self.note,
        )


def change_for(job: Job, factory_id: str, report: Report, *, now: datetime) -> JobChange | None:
    """Return the change that a report asks for; None if there is nothing new.

    Raises Fenced, IllegalTransition, Invalid, Forbidden, Conflict, as the rule of its stage does.
    """
    epoch, progress = report.epoch, report.progress
    if progress.checkpoint is not None:
        own = own_checkpoint(factory_id, progress.checkpoint, job.checkpoint)
        progress = replace(progress, checkpoint=own)
    match report.stage:
        case None:
            return outcome.record_progress(job, factory_id, epoch, progress, now=now)
        case Stage.BUILDING:
            return outcome.start_building(job, factory_id, epoch, progress, now=now)
        case Stage.REVIEW | Stage.TESTING:
            return outcome.succeed(job, factory_id, epoch, progress, wants=report.stage, now=now)
        case Stage.SHIPPED:
            return outcome.complete_ship(job, factory_id, epoch, progress, now=now)
        case Stage.FAILED | Stage.QUEUED:
            default = Result.CRASH if report.stage is Stage.FAILED else Result.RELEASED
            return outcome.fail(
                job,
                factory_id,
                epoch,
                report.result or default,
                report.reason or "no reason was given",
                progress,
                now=now,
                retry_after=report.retry_after,
            )
        case _:
            raise IllegalTransition(job.id, job.stage, report.stage, "a worker cannot report this")


def own_checkpoint(factory_id: str, given: Checkpoint, current: Checkpoint | None) -> Checkpoint:
    """Return a reported checkpoint as the reporting factory's own.

    A ship step may carry on the session of the run before it, which stays where it was.
    """
    if current is not None and (current.factory_id, current.engine, current.session_id) == (
        given.factory_id,
        given.engine,
        given.session_id,
    ):
        return given
    return replace(given, factory_id=factory_id)


def run_after(run: Run, change: JobChange, report: Report, *, now: datetime) -> Run:
    """Return the run with the reported values; it ends with the lease."""
    values = {
        name: value
        for name in ("usage", "verify", "diff", "versions", "wall_sec", "cpu_sec")
        if (value := getattr(report, name)) is not None
    }
    if report.stage is Stage.BUILDING and run.started_at is None:
        values["started_at"] = now
    run = replace(run, **values)
    if change.after.lease is not None:
        return replace(run, rev=run.rev + 1)
    result = report.result or (change.after.result or Result.OK)
    return end_run(run, result, report.reason, now=now)
