"""A plan against what is there: what is new, what stays, and what gives way."""

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
    """The children of a plan by what becomes of them, under the ids of their drafts."""

    kept: Mapping[str, Job]
    """There already: shipped or under way with the same content, or in flight with another."""
    replaced: Mapping[str, Job]
    """Waiting with other content, or ended without being shipped: a new one takes their place."""


def compare_plan(drafts: Sequence[Draft], children: Sequence[Job]) -> PlanComparison:
    """Sort a plan's children by name and content against those that their composite has.

    What has shipped unchanged is not done again, and what is in flight is never touched.
    """
    # The newest of a name is the one that counts.
    there = {child.name: child for child in sorted(children, key=lambda child: child.id)}
    kept: dict[str, Job] = {}
    replaced: dict[str, Job] = {}
    for made in drafts:
        child = there.get(made.job.name)
        if child is None:
            continue
        if made.job.planner and child.stage is Stage.SHIPPED:
            # What it answered then is no answer to the question that is asked now.
            continue
        same = child.content_hash == made.job.content_hash
        ended_badly = child.stage in FINAL and child.stage is not Stage.SHIPPED
        if ended_badly or (not same and child.stage in WAITING):
            replaced[made.job.id] = child
        elif same or child.stage is not Stage.SHIPPED:
            kept[made.job.id] = child
    return PlanComparison(kept, replaced)


def replace_child(old: Job, new_id: str, *, by: str, now: datetime) -> JobChange:
    """A child leaves its place to a newer one: whoever waits for it then follows."""
    if old.finished:
        note = (event_types.SUPERSEDED, {"by": by, "reason": f"replaced by {new_id}"})
        return transition(old, None, note, actor=by, now=now, superseded_by=new_id)
    ended = cancel(old, by, f"replaced by {new_id}", now=now, result=Result.SUPERSEDED)
    after = msgspec.structs.replace(ended.after, superseded_by=new_id)
    return msgspec.structs.replace(ended, after=after)


def adopt_child(
    child: Job, composite_id: str, phase: int | None, *, by: str, now: datetime
) -> JobChange:
    """What has shipped unchanged becomes part of the composite that is run again."""
    note = (event_types.ADOPTED, {"parent": composite_id, "was": child.parent_id})
    return transition(child, None, note, actor=by, now=now, parent_id=composite_id, phase=phase)
