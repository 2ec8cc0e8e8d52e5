"""Compare a plan with the existing children: new, kept and replaced ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import FINAL, Job, Result, Stage
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.submission.draft import Draft

WAITING = frozenset({Stage.BLOCKED, Stage.QUEUED})


class PlanComparison(msgspec.Struct, frozen=True):
    """Existing children that a plan keeps or replaces, by the ids of the drafts."""

    kept: Mapping[str, Job]
    """Shipped or active with the same content, or running with other content."""
    replaced: Mapping[str, Job]
    """Waiting with other content, or finished without being shipped."""


def compare_plan(drafts: Sequence[Draft], children: Sequence[Job]) -> PlanComparison:
    """Compare drafted children by name and content with the existing ones.

    Unchanged shipped children are not repeated, and running ones are never touched.
    """
    # The newest child of a name counts.
    children_by_name = {child.name: child for child in sorted(children, key=lambda child: child.id)}
    unchanged: dict[str, Job] = {}
    replaced: dict[str, Job] = {}
    for made in drafts:
        child = children_by_name.get(made.job.name)
        if child is None:
            continue
        if made.job.planner and child.stage is Stage.SHIPPED:
            # The earlier plan does not answer the new request.
            continue
        same = child.content_hash == made.job.content_hash
        ended_badly = child.stage in FINAL and child.stage is not Stage.SHIPPED
        if ended_badly or (not same and child.stage in WAITING):
            replaced[made.job.id] = child
        elif same or child.stage is not Stage.SHIPPED:
            unchanged[made.job.id] = child
    return PlanComparison(unchanged, replaced)


def replace_child(old: Job, new_id: str, *, by: str, now: datetime) -> JobChange:
    """Supersede a child by a newer one; its dependents follow."""
    if old.finished:
        note = (event_types.SUPERSEDED, {"by": by, "reason": f"replaced by {new_id}"})
        return transition(old, None, note, actor=by, now=now, superseded_by=new_id)
    ended = cancel(old, by, f"replaced by {new_id}", now=now, result=Result.SUPERSEDED)
    after = msgspec.structs.replace(ended.after, superseded_by=new_id)
    return msgspec.structs.replace(ended, after=after)


def adopt_child(
    child: Job, composite_id: str, phase: int | None, *, by: str, now: datetime
) -> JobChange:
    """Move an unchanged, shipped child to the composite that was submitted again."""
    note = (event_types.ADOPTED, {"parent": composite_id, "was": child.parent_id})
    return transition(child, None, note, actor=by, now=now, parent_id=composite_id, phase=phase)
