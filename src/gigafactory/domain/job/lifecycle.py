"""The state machine of jobs: allowed transitions, who triggers them, and the actions of people."""

from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import Guard, JobChange
from gigafactory.domain.job.job import FINAL, Event, Job, Lease, Result, ShipRequest, Stage, Step

B, Q, A, U = Stage.BLOCKED, Stage.QUEUED, Stage.ASSIGNED, Stage.BUILDING
R, T, S = Stage.REVIEW, Stage.TESTING, Stage.SHIPPED
F, D, C = Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED


class Transition(msgspec.Struct, frozen=True):
    """One allowed transition; `before` is None for a new job."""

    before: Stage | None
    after: Stage
    by: str
    when: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, Q, "submitter", "submitted, every dependency satisfied"),
    Transition(
        None, B, "submitter", "submitted with an open dependency, or as a schedule's template"
    ),
    Transition(B, Q, "system", "all dependencies satisfied"),
    Transition(B, F, "system", "a dependency can never be satisfied and on-dep-failure is fail"),
    Transition(Q, U, "system", "a composite, one of whose children has started"),
    Transition(Q, A, "factory", "claimed or accepted: lease granted, epoch + 1"),
    Transition(A, U, "factory", "the factory begins: worktree, setup, engine"),
    Transition(A, Q, "factory or reaper", "handed back, or the lease expired"),
    Transition(U, Q, "factory or reaper", "handed back, retried, or the lease expired"),
    Transition(A, F, "factory", "failed for good before it began"),
    Transition(U, F, "factory", "failed for good"),
    Transition(A, D, "system", "retries exhausted, or poison"),
    Transition(U, D, "system", "retries exhausted, or poison"),
    Transition(U, T, "factory", "succeeded, verify passed, review is automatic"),
    Transition(U, R, "factory", "succeeded, and a person must look"),
    Transition(R, T, "reviewer", "approved"),
    Transition(R, F, "reviewer", "rejected"),
    Transition(T, F, "reviewer", "rejected"),
    Transition(R, Q, "reviewer", "changes requested"),
    Transition(
        T, Q, "reviewer or operator", "changes requested, or a ship conflict handed to the agent"
    ),
    Transition(T, S, "operator asks, factory does", "shipped"),
    Transition(F, R, "reviewer", "a scope violation overridden, with a reason"),
    *(Transition(stage, Q, "operator", "requeued") for stage in (F, D, C)),
    *(
        Transition(stage, B, "operator", "requeued as a child: waits for its turn")
        for stage in (F, D, C)
    ),
    *(
        Transition(stage, C, "operator or system", "cancelled or superseded")
        for stage in (B, Q, A, U, R, T)
    ),
)

ALLOWED = frozenset((move.before, move.after) for move in TRANSITIONS)

ACTIONS: dict[str, frozenset[Stage]] = {
    "approve": frozenset({R}),
    "reject": frozenset({R, T}),
    "request-changes": frozenset({R, T}),
    "request-review": frozenset({U, R}),
    "ship": frozenset({T}),
    "override-scope": frozenset({F}),
    "requeue": frozenset({F, D, C}),
    "cancel": frozenset(Stage) - FINAL,
    "promote": frozenset({Q}),
    "preempt": frozenset({A, U}),
    "release": frozenset({A, U}),
}
"""The actions of people and the stages that allow them; every user interface uses this table."""

COMPOSITE_ACTIONS: dict[str, frozenset[Stage]] = {
    "approve": frozenset({U}),
    "reject": frozenset({T}),
    "ship": frozenset({T}),
    "requeue": frozenset({F, D, C}),
    "cancel": frozenset(Stage) - FINAL,
}
"""The same for composites: `approve` opens the next phase, `ship` accepts the whole."""

ACTION_TARGETS: dict[str, Stage] = {
    "approve": T,
    "reject": F,
    "request-changes": Q,
    "request-review": R,
    "ship": S,
    "override-scope": R,
    "requeue": Q,
    "cancel": C,
    "promote": Q,
    "preempt": Q,
    "release": Q,
}
"""The stage that each action leads to, immediately or eventually."""


def actions_of(job: Job) -> tuple[str, ...]:
    """Return the actions allowed for this job now, in the order of the table."""
    return _available_actions(job.stage, composite=job.composite, unapproved=job.unapproved)


@cache
def _available_actions(stage: Stage, *, composite: bool, unapproved: bool) -> tuple[str, ...]:
    table = COMPOSITE_ACTIONS if composite else ACTIONS
    available = [action for action, stages in table.items() if stage in stages]
    if unapproved:
        available = ["approve", *(action for action in available if action != "ship")]
    return tuple(available)


def require_action(job: Job, action: str) -> None:
    """Refuse an action that the job does not allow now.

    Raises IllegalTransition.
    """
    table = COMPOSITE_ACTIONS if job.composite else ACTIONS
    if action == "ship" and job.unapproved:
        hint = f"people changed it after it was approved; {job.head} has to be approved first"
        raise IllegalTransition(job.id, job.stage, ACTION_TARGETS[action], hint)
    if action not in actions_of(job):
        allowed = ", ".join(sorted(table.get(action, ())))
        hint = f"{action} is for {_KINDS[job.composite]} that are {allowed}"
        if action not in table:
            hint = f"{action} is for its children; a composite has {', '.join(table)}"
        raise IllegalTransition(job.id, job.stage, ACTION_TARGETS[action], hint)


_KINDS = {False: "jobs", True: "composites"}


def require_ready(job: Job, wanted: str, *, now: datetime) -> Step:
    """Return what a factory could do for this job now.

    Raises IllegalTransition if the job does not wait for a factory, or its `not_before` is ahead.
    """
    if job.step is None:
        raise IllegalTransition(job.id, job.stage, wanted, "it does not wait for a factory")
    if job.not_before is not None and not is_ready(job, now):
        hint = f"it waits until {format_time(job.not_before)}"
        raise IllegalTransition(job.id, job.stage, wanted, hint)
    return job.step


def is_ready(job: Job, now: datetime) -> bool:
    """Return whether a factory could run or ship this job now."""
    return job.step is not None and (job.not_before is None or job.not_before <= now)


def format_time(at: datetime) -> str:
    """Format a time for events and messages: ISO 8601 in UTC with milliseconds."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def name_key(job: Job) -> str:
    """Return the unique key of a job's name: one unfinished job per product and name."""
    return f"name/{job.product_id}/{job.name}"


def composite_key(job_id: str) -> str:
    """Return the unique key that a composite holds while its children need supervision."""
    return f"composite/{job_id}"


def transition(
    job: Job,
    to: Stage | None,
    *notes: tuple[str, dict[str, Any]],
    actor: str,
    now: datetime,
    take: tuple[str, ...] = (),
    free: tuple[str, ...] = (),
    guards: tuple[Guard, ...] = (),
    **fields: Any,  # noqa: ANN401 - fields of Job, checked by msgspec.structs.replace
) -> JobChange:
    """Return the change of a job to a stage (None: unchanged), with one event per note.

    Raises IllegalTransition for a transition that is not in the table.
    """
    stage = job.stage if to is None else to
    if to is not None and (job.stage, to) not in ALLOWED:
        raise IllegalTransition(job.id, job.stage, to)
    at = max(now, job.updated_at)
    if to is not None:
        fields["stage_since"] = at
        if to in FINAL:
            free = (*free, name_key(job))
        if to is Stage.SHIPPED and job.composite:
            free = (*free, composite_key(job.id))
    if job.lease is not None and fields.get("lease", job.lease) is None:
        fields["worked_s"] = job.worked_s + _worked_seconds(job.lease, at)
    after = msgspec.structs.replace(
        job, stage=stage, rev=job.rev + 1, seq=job.seq + len(notes), updated_at=at, **fields
    )
    return JobChange(
        before=job,
        after=after,
        events=make_events(after, job.seq, notes, actor=actor, at=at),
        take=take,
        free=free,
        guards=guards,
    )


def _worked_seconds(lease: Lease, now: datetime) -> float:
    """Return the run time of a lease; shipping does not count."""
    elapsed = now - lease.granted_at if lease.step is Step.RUN else timedelta()
    return round(elapsed.total_seconds(), 3)


def make_events(
    after: Job, seq: int, notes: tuple[tuple[str, dict[str, Any]], ...], *, actor: str, at: datetime
) -> tuple[Event, ...]:
    """Return the events of a change, numbered from `seq` + 1, each with the resulting stage."""
    return tuple(
        Event(
            type=kind,
            at=at,
            actor=actor,
            product_id=after.product_id,
            job_id=after.id,
            seq=seq + number,
            stage=after.stage,
            data=data,
        )
        for number, (kind, data) in enumerate(notes, 1)
    )


def combine(first: JobChange | None, second: JobChange) -> JobChange:
    """Combine two consecutive changes of one job into one; both are stored, or none."""
    if first is None:
        return second
    assert first.after == second.before, "the second change starts from the result of the first"
    return JobChange(
        before=first.before,
        after=second.after,
        events=first.events + second.events,
        spec=first.spec,
        take=first.take + second.take,
        free=first.free + second.free,
        guards=first.guards + second.guards,
    )


POLICY = "policy"


def ask_to_ship(job: Job, by: str, *, actor: str, now: datetime) -> JobChange:
    """Request the ship step; with `ship: none` the job is shipped at once.

    Raises IllegalTransition for a job with `ship: none` that is not in testing.
    """
    note = (event_types.SHIP_REQUESTED, {"by": by, "commit": job.head})
    if job.terms.ship == "none":
        done = (event_types.SHIPPED, {"commit": job.head, "ship": "none"})
        return transition(
            job, Stage.SHIPPED, note, done, actor=actor, now=now, result=Result.OK, reason=None
        )
    request = ShipRequest(by=by, commit=job.head, at=now)
    return transition(job, None, note, actor=actor, now=now, ship=request)
