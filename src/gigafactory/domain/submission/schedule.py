"""Schedules: when a template is due, and the copy that it submits."""

from collections.abc import Sequence
from datetime import datetime

from cronsim import CronSim
from msgspec.structs import replace

from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Job, JobSpec, Stage
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.submission.submission import submit

ACTOR = "system:cron"


def next_tick(expression: str, after: datetime) -> datetime:
    """Return the first time after `after` that matches a cron expression, in UTC."""
    return next(CronSim(expression, after))


def tick(
    template: Job,
    spec: JobSpec,
    previous: Job | None,
    deps: Sequence[Job],
    *,
    copy_id: str,
    now: datetime,
) -> tuple[JobChange, ...]:
    """Submit a copy and set the next tick; skip the copy while the previous one is unfinished."""
    assert template.terms.schedule is not None, "only a template ticks"
    assert template.not_before is not None, "a template is due at some time"
    due = next_tick(template.terms.schedule, max(now, template.not_before))
    at = template.not_before.isoformat()
    if previous is not None and not previous.finished:
        note = (
            event_types.TICK_SKIPPED,
            {"tick": at, "running": previous.id, "next": due.isoformat()},
        )
        return (transition(template, None, note, actor=ACTOR, now=now, not_before=due),)
    copied = submit(
        copy_of(template, copy_id, now),
        replace(spec, job_id=copy_id),
        deps,
        actor=ACTOR,
        now=now,
    )
    note = (event_types.TICKED, {"tick": at, "copy": copy_id, "next": due.isoformat()})
    ticked = transition(template, None, note, actor=ACTOR, now=now, not_before=due, copy_id=copy_id)
    return (ticked, copied)


def copy_of(template: Job, copy_id: str, now: datetime) -> Job:
    """Return the job that one tick submits, not stored yet."""
    assert template.not_before is not None, "a template is due at some time"
    return Job(
        id=copy_id,
        product_id=template.product_id,
        name=f"{template.name[:80]}-{template.not_before:%Y%m%d-%H%M}",
        title=template.title,
        ask=template.ask,
        terms=replace(template.terms, schedule=None),
        content_hash=template.content_hash,
        submitted_by=template.submitted_by,
        created_at=now,
        updated_at=now,
        stage_since=now,
        stage=Stage.QUEUED,
        priority=template.priority,
        lock=template.lock,
        profile=template.profile,
        model=template.model,
        words=template.words,
        deps=template.deps,
        idempotency_key=f"schedule/{template.id}/{template.not_before.isoformat()}",
        tracker_item=template.tracker_item,
        rev=0,
    )
