"""What people do to a job: approve, reject, send back, ship, requeue, cancel, promote."""

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
    """The commit that a decision is about: the one that was looked at must still be the newest.

    Raises Conflict.
    """
    if commit is not None and commit != job.head:
        raise Conflict(
            f"job {job.id} is at commit {job.head or 'none'}, and the decision names {commit}:"
            " look at the newer work and decide again"
        )
    return job.head


def require_reason(reason: str, what: str) -> None:
    """Refuse a decision that needs a reason and has none.

    Raises Invalid.
    """
    if not reason.strip():
        raise Invalid("the decision", [Fault("reason", f"is empty; say why you {what}")])


def _refuse_while_shipping(job: Job, wanted: Stage) -> None:
    if job.lease is not None and job.lease.step is Step.SHIP:
        raise IllegalTransition(
            job.id,
            job.stage,
            wanted,
            f"{job.lease.factory_id} is shipping it; wait for the end of that step",
        )


def approve(job: Job, by: str, comment: str, commit: str | None, *, now: datetime) -> JobChange:
    """A reviewer lets the work pass, and the last of the quorum moves it on, each counted once.

    With ship-policy auto it is then asked to ship at once, unless a protected path changed. What
    people changed after it was approved stays where it is, and may be shipped again.
    Raises IllegalTransition, Conflict when the commit is not the newest, Forbidden for whoever is
    not among the reviewers that the job names, or is its author.
    """
    require_action(job, "approve")
    head = require_commit(job, commit)
    require_reviewer(job, by)
    refuse_author(job, by)
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
    """Where the job names its reviewers, only these decide."""
    reviewers = job.terms.reviewers
    if reviewers and by.removeprefix("user:") not in reviewers:
        named = ", ".join(reviewers)
        raise Forbidden(f"{by} does not review job {job.id}; its reviewers are {named}")


def refuse_author(job: Job, by: str) -> None:
    """Where the job names its reviewers, the author's own approval never counts."""
    if job.terms.reviewers and by == job.submitted_by:
        named = ", ".join(job.terms.reviewers)
        raise Forbidden(f"{by} submitted job {job.id}; another of its reviewers decides: {named}")


def reject(job: Job, by: str, reason: str, commit: str | None, *, now: datetime) -> JobChange:
    """A reviewer ends the job; where reviewers are named, one of these, whoever else agrees.

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
    """A reviewer sends the work back: the next run goes on from the checkpoint with the comment.

    What passed its review already, and cannot be shipped, may be sent back by others than those
    named. Raises IllegalTransition, Conflict, Forbidden, Invalid without a comment.
    """
    require_action(job, "request-changes")
    if job.stage is Stage.REVIEW:
        require_reviewer(job, by)
    require_reason(comment, "want changes: the comment is what the agent is told")
    _refuse_while_shipping(job, Stage.QUEUED)
    note = {"by": by, "comment": comment, "commit": require_commit(job, commit)}
    return transition(
        job,
        Stage.QUEUED,
        (event_types.CHANGES_REQUESTED, note),
        actor=by,
        now=now,
        follow_ups=(*job.follow_ups, comment),
        # What was said of the work so far is not said of what comes of the comment.
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
    """A person asks for a review, of those named or of any reviewer; it never asks for less.

    Work under way then goes to people when it is done, whatever its policy says. Approvals of those
    who are not asked any more do not count. Raises IllegalTransition, Invalid.
    """
    require_action(job, "request-review")
    faults: list[Fault] = []
    named = _parse_reviewers(reviewers, faults) or job.terms.reviewers
    wanted = quorum or job.terms.quorum
    able = [name for name in named if f"user:{name}" != job.submitted_by]
    faults += _weakening_faults(job, named, wanted)
    if (named or wanted > 1) and len(able) < wanted:
        found = f"found {wanted}, and {len(able)} of those named can approve"
        faults.append(Fault("quorum", f"{found}; name as many, beside who submitted it"))
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
    """The names without a leading `@`, each once; what is none becomes a fault."""
    found: dict[str, None] = {}
    for name in reviewers:
        try:
            found[person(name)] = None
        except ValueError as wrong:
            faults.append(Fault("reviewers", f"found {name}; expected {wrong}"))
    return tuple(found)


def _weakening_faults(job: Job, named: tuple[str, ...], quorum: int) -> list[Fault]:
    """What a request would take away from the review that the job asks for already."""
    faults = []
    known = job.terms.reviewers
    if known and (others := [name for name in named if name not in known]):
        message = f"found {', '.join(others)}; the job names {', '.join(known)}: choose among these"
        faults.append(Fault("reviewers", message))
    if quorum < job.terms.quorum:
        faults.append(
            Fault("quorum", f"found {quorum}; the job asks for {job.terms.quorum} already")
        )
    return faults


def request_ship(job: Job, by: str, commit: str | None, *, now: datetime) -> JobChange:
    """An operator asks for the ship step; with `ship: none` there is nothing left to do for it.

    Raises IllegalTransition, Conflict.
    """
    require_action(job, "ship")
    require_commit(job, commit)
    if job.ship is not None:
        raise Conflict(
            f"job {job.id} is already asked to ship, by {job.ship.by}; wait for a factory to do it"
        )
    return ask_to_ship(job, by, actor=by, now=now)


def override_scope(job: Job, by: str, reason: str, *, now: datetime) -> JobChange:
    """A reviewer takes a job back that left its scope, to look at it as it is.

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
        # The run counts as good from now on, so it is no failed attempt any more.
        attempts=max(job.attempts - 1, 0),
        approvals=(),
    )


def requeue(job: Job, by: str, *, fresh: bool, now: datetime) -> JobChange:
    """An operator reopens a job: attempts start again; the checkpoint is kept unless `fresh`.

    Raises IllegalTransition, also for a schedule's template, which never runs itself; the store
    answers Held when its name was given to another job since.
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
    """The job as if nothing had been tried; with `fresh` also without what was made of it."""
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
    """End an unfinished job: the epoch moves at once, slot and lock are free when the worker stops.

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
    """Put a queued job at the front of its priority class; it still does not start before its time.

    Raises IllegalTransition.
    """
    require_action(job, "promote")
    return transition(job, None, (event_types.PROMOTED, {"by": by}), actor=by, now=now, front=True)


def release(job: Job, by: str, reason: str, *, now: datetime) -> JobChange:
    """An operator takes a running job from its factory and puts it back into the queue.

    Raises IllegalTransition.
    """
    require_action(job, "release")
    lease = job.lease
    assert lease is not None, "a running job has a lease"
    given_back = hand_back(job, Result.RELEASED, reason, actor=by, now=now)
    # The worker may still be running: its slot and lock come free when it stops, as after a cancel.
    # It has not spoken either, so a losing streak goes on.
    after = replace(given_back.after, **revoke_lease(job), lost=job.lost)
    return replace(given_back, after=after, free=())
