"""Actions of people on a job: approve, reject, request changes, ship, requeue, cancel, promote."""

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, Fault, Forbidden, IllegalTransition, Invalid
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import EDITED, PROTECTED, Job, Result, Stage, Step
from gigafactory.domain.job.lease import hand_back, revoke_lease
from gigafactory.domain.job.lifecycle import (
    POLICY,
    ask_to_ship,
    combine,
    name_key,
    require_action,
    transition,
)
from gigafactory.domain.job.run_outcome import set_flag
from gigafactory.domain.manifest.names import person


def require_commit(job: Job, commit: str | None) -> str | None:
    """Return the commit under review, which must still be the one that the decision names.

    Raises Conflict.
    """
    if commit is not None and commit != job.head:
        raise Conflict(
            f"the work of job {job.id} changed since you looked at commit {commit}:"
            f" now {job.head or 'it has none'}; look again and decide again"
        )
    return job.head


def require_shown_commit(job: Job, commit: str | None) -> str | None:
    """Return the commit that a person saw and lets pass, which must be the newest.

    Raises Invalid if the decision names none although there is one, Conflict.
    """
    if commit is None and job.head is not None:
        fault = Fault("commit", f"is missing; send the commit that was looked at, now {job.head}")
        raise Invalid("the decision", [fault])
    return require_commit(job, commit)


def require_reason(reason: str, action: str) -> None:
    """Refuse an empty reason.

    Raises Invalid.
    """
    if not reason.strip():
        raise Invalid("the decision", [Fault("reason", f"is empty; say why you {action}")])


def _refuse_while_shipping(job: Job, wanted: Stage) -> None:
    if job.lease is not None and job.lease.step is Step.SHIP:
        raise IllegalTransition(
            job.id,
            job.stage,
            wanted,
            f"{job.lease.factory_id} is shipping it; wait for the end of that step",
        )


def approve(job: Job, by: str, comment: str, commit: str | None, *, now: datetime) -> JobChange:
    """Record an approval; the one that completes the quorum moves the job to testing.

    With ship-policy auto the ship step is then requested, unless a protected path changed. A job
    that people edited after its approval stays in testing and may be shipped again.
    Raises IllegalTransition, Forbidden for the author and for people who are not among the named
    reviewers, Invalid without the commit that was shown, Conflict if it is not the newest.
    """
    require_action(job, "approve")
    require_reviewer(job, by)
    refuse_author(job, by)
    head = require_shown_commit(job, commit)
    note = {"by": by, "decision": "approve", "comment": comment, "commit": head}
    notes: list[tuple[str, dict[str, Any]]] = [(event_types.REVIEW_SUBMITTED, note)]
    approvals = job.approvals if by in job.approvals else (*job.approvals, by)
    if len(approvals) < job.terms.quorum:
        return transition(job, None, *notes, actor=by, now=now, approvals=approvals)
    notes.append((event_types.APPROVED, {"by": list(approvals), "commit": head}))
    passed = transition(
        job,
        Stage.TESTING if job.stage is Stage.REVIEW else None,
        *notes,
        actor=by,
        now=now,
        approvals=approvals,
        ship=None,
        reason=None,
        flags=set_flag(job.flags, EDITED, on=False),
    )
    if job.terms.auto_ship and job.verified is True and PROTECTED not in job.flags:
        return combine(passed, ask_to_ship(passed.after, POLICY, actor=by, now=now))
    return passed


def require_reviewer(job: Job, by: str) -> None:
    """Refuse a person who is not among the named reviewers, if there are any."""
    reviewers = job.terms.reviewers
    if reviewers and by.removeprefix("user:") not in reviewers:
        named = ", ".join(reviewers)
        raise Forbidden(f"{by} does not review job {job.id}; its reviewers are {named}")


def refuse_author(job: Job, by: str) -> None:
    """Refuse the author's own approval if the job names reviewers."""
    if job.terms.reviewers and by == job.submitted_by:
        named = ", ".join(job.terms.reviewers)
        raise Forbidden(f"{by} submitted job {job.id}; another of its reviewers decides: {named}")


def reject(job: Job, by: str, reason: str, commit: str | None, *, now: datetime) -> JobChange:
    """Reject the work: the job fails, even if others approved.

    Raises IllegalTransition, Conflict, Forbidden, Invalid without a reason.
    """
    require_action(job, "reject")
    require_reviewer(job, by)
    require_reason(reason, "reject it")
    _refuse_while_shipping(job, Stage.FAILED)
    note = {"by": by, "reason": reason, "commit": require_commit(job, commit)}
    return transition(
        job,
        Stage.FAILED,
        (event_types.REJECTED, note),
        actor=by,
        now=now,
        result=Result.REJECTED,
        reason=reason,
        offer=None,
        ship=None,
    )


def request_changes(
    job: Job, by: str, comment: str, commit: str | None, *, now: datetime
) -> JobChange:
    """Send the work back: the next run continues from the checkpoint with the comment.

    Work in testing, past its review, may be sent back by others than the named reviewers.
    Raises IllegalTransition, Conflict, Forbidden, Invalid without a comment.
    """
    require_action(job, "request-changes")
    if job.stage is Stage.REVIEW:
        require_reviewer(job, by)
    require_reason(comment, "want changes: the agent gets the comment as instructions")
    _refuse_while_shipping(job, Stage.QUEUED)
    note = {"by": by, "comment": comment, "commit": require_commit(job, commit)}
    return transition(
        job,
        Stage.QUEUED,
        (event_types.CHANGES_REQUESTED, note),
        actor=by,
        now=now,
        follow_ups=(*job.follow_ups, comment),
        # Approvals and results so far do not apply to the reworked version.
        approvals=(),
        verified=None,
        result=None,
        reason=None,
        offer=None,
        ship=None,
        not_before=None,
    )


def request_review(
    job: Job,
    by: str,
    reviewers: tuple[str, ...],
    quorum: int | None,
    comment: str,
    *,
    now: datetime,
) -> JobChange:
    """Request a review by the named or by any reviewers; it can only add requirements.

    A running job then goes to review whatever its policy. Approvals of people who are no longer
    reviewers are dropped. Raises IllegalTransition, Invalid.
    """
    require_action(job, "request-review")
    faults: list[Fault] = []
    named = _parse_reviewers(reviewers, faults) or job.terms.reviewers
    wanted = quorum or job.terms.quorum
    able = [name for name in named if f"user:{name}" != job.submitted_by]
    faults += _weakening_faults(job, named, wanted)
    if (named or wanted > 1) and len(able) < wanted:
        fault_text = f"found {wanted}, and {len(able)} of those named can approve"
        faults.append(Fault("quorum", f"{fault_text}; name more reviewers, besides the submitter"))
    if faults:
        raise Invalid("the request for a review", faults)
    note = {"by": by, "reviewers": list(named), "quorum": wanted, "comment": comment}
    return transition(
        job,
        None,
        (event_types.REVIEW_ASKED, note | {"commit": job.head}),
        actor=by,
        now=now,
        terms=replace(job.terms, review_by_people=True, reviewers=named, quorum=wanted),
        approvals=tuple(
            who for who in job.approvals if not named or who.removeprefix("user:") in able
        ),
    )


def _parse_reviewers(reviewers: tuple[str, ...], faults: list[Fault]) -> tuple[str, ...]:
    """Return the unique names without `@`; invalid ones become faults."""
    unique: dict[str, None] = {}
    for name in reviewers:
        try:
            unique[person(name)] = None
        except ValueError as wrong:
            faults.append(Fault("reviewers", f"found {name}; expected {wrong}"))
    return tuple(unique)


def _weakening_faults(job: Job, named: tuple[str, ...], quorum: int) -> list[Fault]:
    """Return faults for a request that would weaken the review that the job already requires."""
    faults = []
    reviewers = job.terms.reviewers
    if reviewers and (others := [name for name in named if name not in reviewers]):
        message = (
            f"found {', '.join(others)}; the job names {', '.join(reviewers)}: choose among these"
        )
        faults.append(Fault("reviewers", message))
    if quorum < job.terms.quorum:
        faults.append(
            Fault("quorum", f"found {quorum}; the job asks for {job.terms.quorum} already")
        )
    return faults


def request_ship(job: Job, by: str, commit: str | None, *, now: datetime) -> JobChange:
    """Request the ship step; with `ship: none` the job is shipped at once.

    Raises IllegalTransition, Invalid without the commit that was shown, Conflict.
    """
    require_action(job, "ship")
    require_shown_commit(job, commit)
    if job.ship is not None:
        raise Conflict(
            f"job {job.id} is already asked to ship, by {job.ship.by}; wait for a factory to do it"
        )
    return ask_to_ship(job, by, actor=by, now=now)


def override_scope(job: Job, by: str, reason: str, *, now: datetime) -> JobChange:
    """Move a job that failed with a scope violation to review.

    Raises IllegalTransition, Invalid without a reason.
    """
    require_action(job, "override-scope")
    require_reason(reason, "override the scope")
    if job.result is not Result.SCOPE_VIOLATION:
        hint = "only a scope violation can be overridden; requeue it instead"
        raise IllegalTransition(job.id, job.stage, Stage.REVIEW, hint)
    note = (event_types.SCOPE_OVERRIDDEN, {"by": by, "reason": reason})
    return transition(
        job,
        Stage.REVIEW,
        note,
        actor=by,
        now=now,
        take=(name_key(job),),
        # The run now counts as a success, not as a failed attempt.
        attempts=max(job.attempts - 1, 0),
        approvals=(),
    )


def requeue(job: Job, by: str, *, fresh: bool, now: datetime) -> JobChange:
    """Queue a finished job again: attempts restart; the checkpoint is kept unless `fresh`.

    Raises IllegalTransition, also for a schedule's template, which never runs itself. The store
    answers KeyTaken if another job has its name by now.
    """
    require_action(job, "requeue")
    if job.terms.schedule is not None:
        hint = "it is the template of a schedule; submit it again"
        raise IllegalTransition(job.id, job.stage, Stage.QUEUED, hint)
    if job.superseded_by is not None:
        hint = f"it was superseded by {job.superseded_by}, which has its idempotency key"
        raise IllegalTransition(job.id, job.stage, Stage.QUEUED, hint)
    return reset(job, Stage.QUEUED, by, fresh=fresh, now=now)


def reset(
    job: Job, stage: Stage, by: str, *, fresh: bool, now: datetime, take: tuple[str, ...] = ()
) -> JobChange:
    """Return the job in `stage` with its attempts reset; `fresh` also drops its checkpoint."""
    fields: dict[str, Any] = {"checkpoint": None, "verified": None} if fresh else {}
    return transition(
        job,
        stage,
        (event_types.REQUEUED, {"by": by, "fresh": fresh, "from": job.stage}),
        actor=by,
        now=now,
        take=(name_key(job), *take),
        attempts=0,
        lost=0,
        worked_s=0.0,
        preempted=0,
        not_before=None,
        exclusions=(),
        result=None,
        reason=None,
        ship=None,
        approvals=(),
        **fields,
    )


def cancel(
    job: Job, by: str, reason: str, *, now: datetime, result: Result = Result.CANCELLED
) -> JobChange:
    """Cancel an unfinished job: epoch + 1 at once, keys released when the worker stops.

    Raises IllegalTransition, also while a factory is shipping it.
    """
    require_action(job, "cancel")
    _refuse_while_shipping(job, Stage.CANCELLED)
    kind = event_types.SUPERSEDED if result is Result.SUPERSEDED else event_types.CANCELLED
    return transition(
        job,
        Stage.CANCELLED,
        (kind, {"by": by, "reason": reason}),
        actor=by,
        now=now,
        result=result,
        reason=reason or None,
        offer=None,
        ship=None,
        **revoke_lease(job),
    )


def promote(job: Job, by: str, *, now: datetime) -> JobChange:
    """Move a queued job to the front of its priority class; its `not_before` still applies.

    Raises IllegalTransition.
    """
    require_action(job, "promote")
    return transition(job, None, (event_types.PROMOTED, {"by": by}), actor=by, now=now, front=True)


def release(job: Job, by: str, reason: str, *, now: datetime) -> JobChange:
    """Revoke the lease of a running job and queue it again.

    Raises IllegalTransition.
    """
    require_action(job, "release")
    lease = job.lease
    assert lease is not None, "a running job has a lease"
    given_back = hand_back(job, Result.RELEASED, reason, actor=by, now=now)
    # The worker may still be running: its keys are released when it stops, as after a cancel.
    # It has not reported either, so the count of lost leases stays.
    after = replace(given_back.after, **revoke_lease(job), lost=job.lost)
    return replace(given_back, after=after, free=())
