"""What only happens where one machine is the whole fleet: nowhere else to go, nobody to ask."""

from datetime import datetime

from msgspec.structs import replace

from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import FINAL, Job, Result, Stage
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.job.lifecycle import make_events, transition

REBUILT = "rebuilt"
"""The flag of a job of which only its place on the board is known."""


def fail_unroutable(
    job: Job, factory_id: str, epoch: int, reason: str, *, now: datetime
) -> JobChange:
    """The only machine lacks what the job needs: failed before it began, and no attempt.

    Raises Fenced, IllegalTransition.
    """
    lease = require_lease(job, factory_id, epoch)
    result = Result.ENGINE_UNAVAILABLE
    note = {"factoryId": factory_id, "epoch": epoch, "result": result, "reason": reason}
    return transition(
        job,
        Stage.FAILED,
        (event_types.FAILED, note),
        actor=f"factory:{factory_id}",
        now=now,
        free=lease.holds,
        lease=None,
        result=result,
        reason=reason,
    )


def rebuild(new: JobChange, stage: Stage, *, now: datetime) -> JobChange:
    """A new job as the place of its file says; a run of which nothing is known is none."""
    job = new.after
    flags = (*job.flags, REBUILT) if stage is not Stage.QUEUED else job.flags
    after = replace(
        job,
        stage=stage if stage is not Stage.QUEUED else job.stage,
        seq=job.seq + 1,
        flags=flags,
        result=Result.OK if stage in {Stage.SHIPPED, Stage.REVIEW, Stage.TESTING} else None,
        reason="its state was lost, and made anew" if stage in FINAL else None,
    )
    told = (event_types.REBUILT, {"stage": after.stage})
    events = make_events(after, job.seq, (told,), actor="system:rebuilder", at=now)
    return replace(new, after=after, events=(*new.events, *events))


def edit(old: Job, new: JobChange, *, now: datetime) -> JobChange:
    """A waiting job whose file was written anew: that is what holds, and its story goes on."""
    told = [(event.type, event.data) for event in new.events if event.type != event_types.SUBMITTED]
    notes = ((event_types.EDITED, {"contentHash": new.after.content_hash}), *told)
    after = replace(
        new.after,
        created_at=old.created_at,
        submitted_by=old.submitted_by,
        updated_at=max(now, old.updated_at),
        stage_since=old.stage_since if new.after.stage is old.stage else now,
        front=old.front,
        copy_id=old.copy_id,
        rev=old.rev + 1,
        seq=old.seq + len(notes),
    )
    events = make_events(after, old.seq, notes, actor=new.events[0].actor, at=after.updated_at)
    return replace(new, before=old, after=after, events=events)
