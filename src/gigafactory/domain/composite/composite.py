"""Composites: how they advance with their children, phase by phase."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from gigafactory.domain.errors import IllegalTransition
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Job, Roadmap, Stage
from gigafactory.domain.job.lifecycle import (
    POLICY,
    ask_to_ship,
    combine,
    composite_key,
    require_action,
    transition,
)
from gigafactory.domain.job.operator_actions import approve as approve_work
from gigafactory.domain.job.operator_actions import refuse_author, require_reviewer, reset

ACTOR = "system:composites"
PHASE_WAITING = "phase_waiting"
"""Flag: the next phase of the composite waits for approval."""

UNSTARTED = frozenset({Stage.BLOCKED, Stage.QUEUED, Stage.CANCELLED})
"""Stages of children that have not started."""
EXTENDABLE = frozenset({Stage.BLOCKED, Stage.QUEUED, Stage.BUILDING, Stage.TESTING})
"""Stages in which a composite accepts more children; from testing it goes back to the queue."""


def first_phase(children: Iterable[Job]) -> int | None:
    """Return the lowest phase of the children; None if no child has one."""
    return min((child.phase for child in children if child.phase is not None), default=None)


def blocks_composite(composite: Job, child: Job) -> bool:
    """Return whether an unshipped child keeps its composite from advancing."""
    opened = composite.roadmap.phase if composite.roadmap else None
    if child.superseded_by is not None:
        return False
    return opened is None or (child.phase is not None and child.phase <= opened)


def add_children(
    composite: Job, children: Sequence[Job], *, by: str, now: datetime, **counts: int
) -> JobChange:
    """Add children: a new revision of the plan.

    A planner alone does not make a revision; its plan will.
    Raises IllegalTransition for a composite that is finished or being accepted.
    """
    if composite.stage not in EXTENDABLE or composite.lease is not None:
        hint = "only a composite that is not finished, and not being accepted, takes children"
        raise IllegalTransition(composite.id, composite.stage, Stage.BUILDING, hint)
    before = composite.roadmap or Roadmap(revision=0)
    phase = first_phase(children) if before.phase is None else before.phase
    planning = all(child.planner for child in children)
    roadmap = Roadmap(before.revision + (not planning), phase)
    again = composite.stage is Stage.TESTING
    return transition(
        composite,
        Stage.QUEUED if again else None,
        (
            event_types.PLANNING if planning else event_types.PLANNED,
            {"revision": roadmap.revision, "children": len(children), **counts},
        ),
        actor=by,
        now=now,
        roadmap=roadmap,
        flags=_flags_without_waiting(composite),
        approvals=(),
        ship=None,
        offer=None,
    )


def advance(
    composite: Job, unshipped: Sequence[Job], *, started: bool, now: datetime
) -> JobChange | None:
    """Return the change of a composite that follows from its children; None if there is none.

    `unshipped` are the children that have not shipped; `started` is whether any child has started.
    """
    if composite.stage is Stage.QUEUED and started:
        note = (
            event_types.STARTED,
            {"revision": composite.roadmap.revision if composite.roadmap else 0},
        )
        return transition(composite, Stage.BUILDING, note, actor=ACTOR, now=now)
    if composite.stage is not Stage.BUILDING:
        return None
    left = [child for child in unshipped if child.superseded_by is None]
    if left:
        return None if composite.over_budget else _next_phase(composite, left, now=now)
    done = transition(
        composite,
        Stage.TESTING,
        (event_types.CHILDREN_SHIPPED, {}),
        actor=ACTOR,
        now=now,
        flags=_flags_without_waiting(composite),
    )
    return combine(done, ask_to_ship(done.after, POLICY, actor=ACTOR, now=now))


def _next_phase(composite: Job, left: Sequence[Job], *, now: datetime) -> JobChange | None:
    roadmap = composite.roadmap or Roadmap()
    following = first_phase(left)
    if roadmap.phase is None or following is None or following <= roadmap.phase:
        return None
    if not composite.terms.review_by_people:
        return _open_phase(composite, following, ACTOR, now=now)
    if roadmap.asked == following:
        return None
    return transition(
        composite,
        None,
        (event_types.PHASE_WAITING, {"phase": following, "shipped": roadmap.phase}),
        actor=ACTOR,
        now=now,
        roadmap=replace(roadmap, asked=following),
        flags=(*_flags_without_waiting(composite), PHASE_WAITING),
        approvals=(),
    )


def _open_phase(
    composite: Job, phase: int, by: str, *, now: datetime, comment: str = ""
) -> JobChange:
    roadmap = replace(composite.roadmap or Roadmap(), phase=phase, asked=None)
    note = (event_types.PHASE_OPENED, {"phase": phase, "by": by, "comment": comment})
    flags = _flags_without_waiting(composite)
    return transition(
        composite, None, note, actor=by, now=now, roadmap=roadmap, flags=flags, approvals=()
    )


def _flags_without_waiting(composite: Job) -> tuple[str, ...]:
    return tuple(flag for flag in composite.flags if flag != PHASE_WAITING)


def approve(job: Job, by: str, comment: str, commit: str | None, *, now: datetime) -> JobChange:
    """Approve a job; for a composite, open its next phase once the quorum is reached.

    Raises IllegalTransition, Conflict, Forbidden.
    """
    if not job.composite:
        return approve_work(job, by, comment, commit, now=now)
    require_action(job, "approve")
    asked_phase = job.roadmap.asked if job.roadmap else None
    if asked_phase is None:
        hint = "no phase waits for approval: the next one does when this one has shipped"
        raise IllegalTransition(job.id, job.stage, Stage.BUILDING, hint)
    require_reviewer(job, by)
    refuse_author(job, by)
    approvals = job.approvals if by in job.approvals else (*job.approvals, by)
    if len(approvals) < job.terms.quorum:
        note = {"by": by, "decision": "approve", "comment": comment, "phase": asked_phase}
        return transition(
            job, None, (event_types.REVIEW_SUBMITTED, note), actor=by, now=now, approvals=approvals
        )
    return _open_phase(job, asked_phase, by, now=now, comment=comment)


def reopen(child: Job, by: str, *, fresh: bool, now: datetime) -> JobChange:
    """Requeue a finished child: it is blocked until its composite and dependencies admit it.

    Raises IllegalTransition for a superseded child.
    """
    require_action(child, "requeue")
    if child.superseded_by is not None:
        hint = f"it was superseded by {child.superseded_by}"
        raise IllegalTransition(child.id, child.stage, Stage.BLOCKED, hint)
    keys = (composite_key(child.id),) if child.composite else ()
    return reset(child, Stage.BLOCKED, by, fresh=fresh, now=now, take=keys)


def close(composite: Job, *, now: datetime) -> JobChange:
    """Release a finished composite from supervision: none of its descendants is active."""
    return transition(
        composite,
        None,
        (event_types.CHILDREN_ENDED, {}),
        actor=ACTOR,
        now=now,
        free=(composite_key(composite.id),),
    )
