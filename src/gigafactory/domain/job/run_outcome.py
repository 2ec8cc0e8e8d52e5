"""How a worker's report changes its job: progress, success, failure, shipping."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from gigafactory.domain.errors import Conflict, Fault, Forbidden, IllegalTransition, Invalid
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import (
    EDITED,
    PROTECTED,
    Checkpoint,
    Job,
    Lease,
    Result,
    Stage,
    Step,
)
from gigafactory.domain.job.lease import exclude, hand_back, require_lease
from gigafactory.domain.job.lifecycle import POLICY, ask_to_ship, combine, format_time, transition
from gigafactory.domain.job.retry import UNCOUNTED_RESULTS, backoff, hand_back_delay, is_retryable
from gigafactory.domain.job.run import Usage

WORKER_RESULTS = frozenset(Result) - {
    Result.OK,
    Result.REJECTED,
    Result.RETRIES_EXHAUSTED,
    Result.POISON,
    Result.CANCELLED,
    Result.SUPERSEDED,
    Result.DEP_FAILED,
}
"""Results that a worker may report for a failed run."""
FAILED_AS = {
    Result.SCOPE_VIOLATION: event_types.SCOPE_VIOLATION,
    Result.BUDGET_EXCEEDED: event_types.BUDGET_EXCEEDED,
}
"""Event types of failures that have their own."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports besides the stage.

    `diff` may list changed paths: `protected` ones and those `outOfScope`.
    """

    checkpoint: Checkpoint | None = None
    usage: Usage | None = None
    verify: dict[str, Any] | None = None
    diff: dict[str, Any] | None = None
    note: str | None = None

    def notes(self, job: Job) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return the events of this progress as (type, data)."""
        notes: list[tuple[str, dict[str, Any]]] = []
        if self.checkpoint is not None and self.checkpoint != job.checkpoint:
            notes.append((event_types.CHECKPOINT, msgspec.to_builtins(self.checkpoint)))
        if self.usage is not None:
            notes.append((event_types.USAGE, msgspec.to_builtins(self.usage)))
        if self.verify is not None:
            notes.append(
                (
                    event_types.VERIFY_PASSED
                    if verify_passed(self.verify)
                    else event_types.VERIFY_FAILED,
                    self.verify,
                )
            )
        if self.diff is not None:
            notes.append(
                (
                    event_types.SCOPE_WARNING if self.diff.get("outOfScope") else event_types.DIFF,
                    self.diff,
                )
            )
        if self.note is not None:
            shipping = job.lease is not None and job.lease.step is Step.SHIP
            notes.append(
                (event_types.SHIP_INTENT if shipping else event_types.NOTE, {"note": self.note})
            )
        return tuple(notes)

    def has_other_commit(self, job: Job) -> bool:
        """Whether it reports another commit than the job's current one."""
        return self.checkpoint is not None and self.checkpoint.commit != job.head

    def fields(self, job: Job) -> dict[str, Any]:
        """Return the changed job fields; a new commit resets the count of lost leases."""
        fields: dict[str, Any] = {}
        if self.checkpoint is not None and self.checkpoint != job.checkpoint:
            fields["checkpoint"] = self.checkpoint
            # Every run has its own branch and session: only a new commit is progress.
            if self.checkpoint.commit != job.head:
                fields |= {"lost": 0, "approvals": ()}
        if self.verify is not None:
            fields["verified"] = verify_passed(self.verify)
        if self.diff is not None:
            fields["flags"] = set_flag(job.flags, PROTECTED, on=bool(self.diff.get("protected")))
        return fields


def set_flag(flags: tuple[str, ...], flag: str, *, on: bool) -> tuple[str, ...]:
    """Return the flags with this one added or removed."""
    other_flags = tuple(other for other in flags if other != flag)
    return (*other_flags, flag) if on else other_flags


NO_PROGRESS = Progress()


def verify_passed(verify: dict[str, Any]) -> bool:
    """Return whether a verify report passed."""
    return verify.get("passed") is True


def record_progress(
    job: Job, factory_id: str, epoch: int, progress: Progress, *, now: datetime
) -> JobChange | None:
    """Record progress of a run; None if there is nothing new.

    Raises Fenced, and Conflict if a worker that ships reports another commit than the approved one.
    """
    lease = require_lease(job, factory_id, epoch)
    if lease.step is Step.SHIP and progress.checkpoint and progress.has_other_commit(job):
        raise Conflict(
            f"job {job.id} ships commit {job.head or 'none'}, which was decided on,"
            f" and not {progress.checkpoint.commit}"
        )
    notes = progress.notes(job)
    if not notes:
        return None
    return transition(
        job, None, *notes, actor=f"factory:{factory_id}", now=now, **progress.fields(job)
    )


def _take_over_edits(job: Job, progress: Progress, *, actor: str, now: datetime) -> JobChange:
    """Adopt commits that people added to the work: it needs a new verify and approval."""
    fields = progress.fields(job)
    flags = set_flag(fields.get("flags", job.flags), EDITED, on=True)
    fields |= {"flags": flags, "verified": None}
    return transition(job, None, *progress.notes(job), actor=actor, now=now, **fields)


def _apply_progress(
    job: Job, factory_id: str, epoch: int, progress: Progress, now: datetime
) -> tuple[JobChange | None, Job]:
    first = record_progress(job, factory_id, epoch, progress, now=now)
    return first, first.after if first else job


def start_building(
    job: Job, factory_id: str, epoch: int, progress: Progress, *, now: datetime
) -> JobChange | None:
    """Move the job to building; a repeated report only records its progress.

    Raises Fenced, IllegalTransition.
    """
    lease = require_lease(job, factory_id, epoch)
    if job.stage is Stage.BUILDING:
        return record_progress(job, factory_id, epoch, progress, now=now)
    first, job = _apply_progress(job, factory_id, epoch, progress, now)
    note = {"factoryId": factory_id, "epoch": epoch, "runId": lease.run_id, "engine": lease.engine}
    return combine(
        first,
        transition(
            job, Stage.BUILDING, (event_types.STARTED, note), actor=f"factory:{factory_id}", now=now
        ),
    )


def succeed(
    job: Job, factory_id: str, epoch: int, progress: Progress, *, wants: Stage, now: datetime
) -> JobChange:
    """End a successful run: the job goes to review, or to testing if no review is required.

    A worker may ask for a review that the policy does not require, never for less. It does so if a
    protected path changed; such work is not shipped by policy either.
    Raises Fenced, IllegalTransition, and Invalid if a required verify did not pass.
    """
    lease = require_lease(job, factory_id, epoch)
    first, job = _apply_progress(job, factory_id, epoch, progress, now)
    if job.terms.verify and job.verified is not True:
        fault = Fault(
            "verify", "the job has a verify and no passing result was reported; run it first"
        )
        raise Invalid("the report", [fault])
    # The plan of a planner was already checked.
    by_policy = job.terms.review_by_people or not (job.terms.verify or job.planner)
    protected = PROTECTED in job.flags or (wants is Stage.REVIEW and not by_policy)
    look = by_policy or protected
    actor = f"factory:{factory_id}"
    ended = transition(
        job,
        Stage.REVIEW if look else Stage.TESTING,
        (event_types.REVIEW_REQUESTED if look else event_types.TESTED, {"commit": job.head}),
        actor=actor,
        now=now,
        free=lease.holds,
        lease=None,
        preemption=None,
        lost=0,
        result=Result.OK,
        reason=None,
        follow_ups=(),
        ship=None,
        flags=set_flag(set_flag(job.flags, EDITED, on=False), PROTECTED, on=protected),
    )
    if not look and job.terms.auto_ship:
        ended = combine(ended, ask_to_ship(ended.after, POLICY, actor=actor, now=now))
    return combine(first, ended)


def complete_ship(
    job: Job, factory_id: str, epoch: int, progress: Progress, *, now: datetime
) -> JobChange:
    """End a successful ship step.

    Raises Fenced, IllegalTransition if the lease is not for shipping, and Invalid for a composite
    without a passing verify.
    """
    lease = require_lease(job, factory_id, epoch)
    if lease.step is not Step.SHIP:
        hint = "a run ends in review or testing; shipping is asked for there"
        raise IllegalTransition(job.id, job.stage, Stage.SHIPPED, hint)
    first, job = _apply_progress(job, factory_id, epoch, progress, now)
    if job.composite and job.verified is not True:
        fault = Fault("verify", "a composite is accepted by its verify; run it, and report it")
        raise Invalid("the report", [fault])
    note = {"factoryId": factory_id, "epoch": epoch, "commit": job.head}
    delivered = transition(
        job,
        Stage.SHIPPED,
        (event_types.SHIPPED, note),
        actor=f"factory:{factory_id}",
        now=now,
        free=lease.holds,
        lease=None,
        ship=None,
        result=Result.OK,
        reason=None,
    )
    return combine(first, delivered)


def fail(
    job: Job,
    factory_id: str,
    epoch: int,
    result: Result,
    reason: str,
    progress: Progress,
    *,
    now: datetime,
    retry_after: timedelta | None = None,
) -> JobChange:
    """End a failed run: the job is queued again, failed or dead-lettered, and the lease ends.

    Raises Fenced; Forbidden for a result that workers may not report.
    """
    lease = require_lease(job, factory_id, epoch)
    if result not in WORKER_RESULTS:
        allowed = ", ".join(sorted(WORKER_RESULTS))
        raise Forbidden(f"a worker cannot report the result {result}; it may report {allowed}")
    actor = f"factory:{factory_id}"
    first: JobChange | None
    if (
        lease.step is Step.SHIP
        and result is Result.MERGE_CONFLICT
        and progress.has_other_commit(job)
    ):
        first = _take_over_edits(job, progress, actor=actor, now=now)
        job = first.after
    else:
        first, job = _apply_progress(job, factory_id, epoch, progress, now)
    if lease.step is Step.SHIP:
        second = _ship_failed(job, lease, result, reason, actor=actor, now=now)
    elif result in UNCOUNTED_RESULTS:
        wait = hand_back_delay(result, retry_after)
        due = now + wait if wait else None
        second = hand_back(job, result, reason, actor=actor, now=now, not_before=due)
    else:
        second = _run_failed(job, lease, result, reason, actor=actor, now=now)
    return combine(first, second)


def _run_failed(
    job: Job, lease: Lease, result: Result, reason: str, *, actor: str, now: datetime
) -> JobChange:
    retries = job.terms.retry_max
    attempts = job.attempts + 1
    fields: dict[str, Any] = {
        "lease": None,
        "preemption": None,
        "lost": 0,
        "reason": reason,
        "attempts": attempts,
    }
    note = {"factoryId": lease.factory_id, "epoch": lease.epoch, "result": result, "reason": reason}
    if not is_retryable(job, result):
        to, kind = Stage.FAILED, FAILED_AS.get(result, event_types.FAILED)
        fields["result"] = result
    elif attempts > retries:
        to, kind = Stage.DEAD_LETTER, event_types.DEAD_LETTERED
        note |= {"attempts": attempts, "last": result}
        fields["result"] = Result.RETRIES_EXHAUSTED
    else:
        to, kind = Stage.QUEUED, event_types.RETRY_SCHEDULED
        due = now + backoff(job, attempts)
        note |= {"attempt": attempts, "of": retries, "notBefore": format_time(due)}
        fields |= {"result": result, "not_before": due}
    return transition(job, to, (kind, note), actor=actor, now=now, free=lease.holds, **fields)


def _ship_failed(
    job: Job, lease: Lease, result: Result, reason: str, *, actor: str, now: datetime
) -> JobChange:
    """Leave a conflict or failed check to a person; give a hand-back to another factory."""
    again = result in UNCOUNTED_RESULTS
    note = {"factoryId": lease.factory_id, "epoch": lease.epoch, "result": result, "reason": reason}
    return transition(
        job,
        None,
        (event_types.RELEASED if again else event_types.SHIP_FAILED, note),
        actor=actor,
        now=now,
        free=lease.holds,
        lease=None,
        ship=job.ship if again else None,
        result=job.result if again else result,
        reason=reason,
        exclusions=exclude(job, lease.factory_id, now) if again else job.exclusions,
    )
