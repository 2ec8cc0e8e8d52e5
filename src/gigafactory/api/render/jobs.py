"""Rendering of jobs, events, artifacts, grants and runs."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.domain.job import event_types
from gigafactory.domain.job.artifact import Artifact
from gigafactory.domain.job.job import (
    Event,
    Job,
    JobSpec,
)
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import format_usd
from gigafactory.wire.fields import optional_timestamp, timestamp
from gigafactory.wire.files import ArtifactView
from gigafactory.wire.jobs import EventView, JobView, LeaseView
from gigafactory.wire.runs import RunView, UsageView
from gigafactory.wire.workers import GrantView


def render_job(
    of: Job,
    *,
    spec: JobSpec | None = None,
    include: Sequence[str] = (),
    events: Sequence[Event] = (),
    runs: Sequence[Run] = (),
    artifacts: Sequence[Artifact] = (),
) -> JobView:
    """Render a job with the requested additional parts."""
    lease = of.lease
    return JobView(
        id=of.id,
        name=of.name,
        product_id=of.product_id,
        title=of.title,
        kind=of.kind,
        stage=of.stage,
        result=of.result,
        reason=of.reason,
        priority=of.priority,
        repo=of.ask.repo,
        profile=of.profile,
        engine=of.engine or of.ask.engine,
        capabilities=of.ask.needs,
        deps=of.deps,
        lock=of.lock,
        attempts=of.attempts,
        submitted_by=of.submitted_by,
        rev=of.rev,
        lease_epoch=of.lease_epoch,
        lease=None
        if lease is None
        else LeaseView(factory_id=lease.factory_id, expires_at=timestamp(lease.expires_at)),
        checkpoint=of.checkpoint,
        parent_id=of.parent_id,
        phase=of.phase,
        created_at=timestamp(of.created_at),
        updated_at=timestamp(of.updated_at),
        stage_since=timestamp(of.stage_since),
        not_before=optional_timestamp(of.not_before),
        flags=of.flags,
        actions=actions_of(of),
        manifest=spec.manifest if spec and "manifest" in include else UNSET,
        body=spec.body if spec and "body" in include else UNSET,
        events=tuple(render_event(each) for each in events) if "events" in include else UNSET,
        runs=tuple(render_run(each) for each in runs) if "runs" in include else UNSET,
        artifacts=tuple(render_artifact(each) for each in artifacts)
        if "artifacts" in include
        else UNSET,
    )


def render_event(of: Event) -> EventView:
    """Render an event."""
    return EventView(
        seq=of.seq,
        type=of.type,
        at=timestamp(of.at),
        actor=of.actor,
        product_id=of.product_id,
        job_id=of.job_id,
        stage=of.stage,
        data=_with_cost(of.data) if of.type == event_types.USAGE else of.data,
        position=of.position,
    )


def _with_cost(data: dict[str, Any]) -> dict[str, Any]:
    nanos = data.get("costNanoUsd")
    public_data = {key: value for key, value in data.items() if key != "costNanoUsd"}
    return public_data | {"costUsd": None if nanos is None else format_usd(nanos)}


def render_artifact(of: Artifact) -> ArtifactView:
    """Render an artifact."""
    return ArtifactView(
        id=of.id,
        job_id=of.job_id,
        product_id=of.product_id,
        run_id=of.run_id,
        name=of.name,
        media_type=of.media_type,
        size=of.size,
        sha256=of.sha256,
        created_at=timestamp(of.created_at),
        created_by=of.created_by,
    )


def render_grant(of: Grant) -> GrantView:
    """Render a grant."""
    return GrantView(
        job=render_job(of.job),
        lease_epoch=of.lease.epoch,
        expires_at=timestamp(of.lease.expires_at),
        run_id=of.lease.run_id,
        engine=of.lease.engine,
        step=of.lease.step,
        manifest=of.manifest,
        body_md=of.body,
        follow_ups=of.job.follow_ups,
        protected_paths=of.protected_paths,
        worked_sec=of.job.worked_s,
    )


def render_run(of: Run) -> RunView:
    """Render a run."""
    return RunView(
        id=of.id,
        job_id=of.job_id,
        product_id=of.product_id,
        factory_id=of.factory_id,
        lease_epoch=of.epoch,
        number=of.number,
        attempt=of.attempt,
        step=of.step,
        engine=of.engine,
        repo=of.repo,
        profile=of.profile,
        granted_at=timestamp(of.granted_at),
        started_at=optional_timestamp(of.started_at),
        ended_at=optional_timestamp(of.ended_at),
        result=of.result,
        reason=of.reason,
        usage=None if of.usage is None else UsageView.from_domain(of.usage),
        verify=of.verify,
        diff=of.diff,
        versions=of.versions,
        wall_sec=of.wall_sec,
        cpu_sec=of.cpu_sec,
        decision=of.decision,
        parent_id=of.parent_id,
        review=of.review,
        edited_lines=of.edited_lines,
    )
