"""Rules used only by the offline folder queue, where one machine is the whole fleet."""

from datetime import datetime

from msgspec.structs import replace

from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import FINAL, Job, Result, Stage
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.job.lifecycle import make_events, transition

REBUILT = "rebuilt"
"""Flag of a job whose record was lost and rebuilt from the column of its file."""


def fail_unroutable(
    job: Job, factory_id: str, epoch: int, reason: str, *, now: datetime
) -> JobChange:
    """Fail a job that the only machine cannot run; it does not count as an attempt.

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
    """Return a new job in the stage given by the column of its file; its runs are unknown."""
    job = new.after
    flags = (*job.flags, REBUILT) if stage is not Stage.QUEUED else job.flags
    after = replace(
        job,
        stage=stage if stage is not Stage.QUEUED else job.stage,
        seq=job.seq + 1,
        flags=flags,
        result=Result.OK if stage in {Stage.SHIPPED, Stage.REVIEW, Stage.TESTING} else None,
        reason="its record was lost and rebuilt" if stage in FINAL else None,
    )
    note = (event_types.REBUILT, {"stage": after.stage})
    events = make_events(after, job.seq, (note,), actor="system:rebuilder", at=now)
    return replace(new, after=after, events=(*new.events, *events))


def edit(old: Job, new: JobChange, *, now: datetime) -> JobChange:
    """Return a waiting job with the content of its edited file; its history continues."""
    other_notes = [
        (event.type, event.data) for event in new.events if event.type != event_types.SUBMITTED
    ]
    notes = ((event_types.EDITED, {"contentHash": new.after.content_hash}), *other_notes)
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
