"""Records as the API shows them: the only place where one is rendered."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.domain.job.artifact import Artifact
from gigafactory.domain.job.job import (
    Checkpoint,
    Event,
    Job,
    JobSpec,
    Priority,
    Result,
    Stage,
    Step,
)
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.job.run import Review, Run, Usage
from gigafactory.domain.manifest.units import format_usd

Moment = Annotated[
    str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-01T12:00:00.000Z"])
]
AsWritten = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
"""A manifest as it was resolved at the submit, in the words in which people write one."""
Money = Annotated[str, Meta(description="dollars, as a decimal number", examples=["0.25"])]


@lru_cache(maxsize=4096)
def moment(at: datetime) -> str:
    """A time as every answer shows it: ISO 8601 in UTC, with milliseconds and `Z`."""
    return at.isoformat(timespec="milliseconds")[:-6] + "Z"


def maybe_moment(at: datetime | None) -> str | None:
    """The same for a time that may be missing."""
    return None if at is None else moment(at)


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all answers share."""


class LeaseView(View, frozen=True, kw_only=True):
    """Who works on a job, and until when."""

    factory_id: str
    expires_at: Moment


class EventView(View, frozen=True, kw_only=True):
    """One line of a job's story, or of the audit log."""

    seq: int
    type: str
    at: Moment
    actor: str
    product_id: str
    job_id: str | None
    stage: Stage | None
    data: dict[str, Any]
    position: int


class JobView(View, frozen=True, kw_only=True):
    """One job as it is now."""

    id: str
    name: str
    product_id: str
    title: str
    kind: str
    stage: Stage
    result: Result | None
    reason: str | None
    priority: Priority
    repo: str | None
    profile: str | None
    engine: str | None
    capabilities: tuple[str, ...]
    deps: tuple[str, ...]
    lock: str | None
    attempts: int
    submitted_by: str
    rev: int
    lease_epoch: int
    lease: LeaseView | None
    checkpoint: Checkpoint | None
    parent_id: str | None
    phase: int | None
    created_at: Moment
    updated_at: Moment
    stage_since: Moment
    not_before: Moment | None
    flags: tuple[str, ...]
    actions: tuple[str, ...]
    """What a person may do with it now."""
    manifest: AsWritten | UnsetType = UNSET
    """With `include=manifest`: as it was resolved at the submit."""
    body: str | UnsetType = UNSET
    """With `include=body`."""
    events: list[EventView] | UnsetType = UNSET
    """With `include=events`: the first 500."""
    runs: "list[RunView] | UnsetType" = UNSET
    """With `include=runs`: every attempt, oldest first."""
    artifacts: "list[ArtifactView] | UnsetType" = UNSET
    """With `include=artifacts`: the files that it has left behind, oldest first."""


def job(
    of: Job,
    *,
    spec: JobSpec | None = None,
    include: Sequence[str] = (),
    events: Sequence[Event] = (),
    runs: Sequence[Run] = (),
    artifacts: Sequence[Artifact] = (),
) -> JobView:
    """A job, with what was asked for beside it."""
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
        else LeaseView(factory_id=lease.factory_id, expires_at=moment(lease.expires_at)),
        checkpoint=of.checkpoint,
        parent_id=of.parent_id,
        phase=of.phase,
        created_at=moment(of.created_at),
        updated_at=moment(of.updated_at),
        stage_since=moment(of.stage_since),
        not_before=maybe_moment(of.not_before),
        flags=of.flags,
        actions=actions_of(of),
        manifest=spec.manifest if spec and "manifest" in include else UNSET,
        body=spec.body if spec and "body" in include else UNSET,
        events=[event(each) for each in events] if "events" in include else UNSET,
        runs=[run(each) for each in runs] if "runs" in include else UNSET,
        artifacts=[artifact(each) for each in artifacts] if "artifacts" in include else UNSET,
    )


class JobsView(View, frozen=True, kw_only=True):
    """Jobs in their order; `nextCursor` goes on after the last one."""

    jobs: list[JobView]
    next_cursor: str | UnsetType | None = UNSET


def event(of: Event) -> EventView:
    """One event."""
    return EventView(
        seq=of.seq,
        type=of.type,
        at=moment(of.at),
        actor=of.actor,
        product_id=of.product_id,
        job_id=of.job_id,
        stage=of.stage,
        data=_priced(of.data) if of.type == "usage" else of.data,
        position=of.position,
    )


def _priced(data: dict[str, Any]) -> dict[str, Any]:
    nanos = data.get("costNanoUsd")
    shown = {key: value for key, value in data.items() if key != "costNanoUsd"}
    return shown | {"costUsd": None if nanos is None else format_usd(nanos)}


class ArtifactView(View, frozen=True, kw_only=True):
    """A file that a job has left behind, or that somebody has added to it."""

    id: str
    job_id: str
    product_id: str
    run_id: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    created_at: Moment
    created_by: str


def artifact(of: Artifact) -> ArtifactView:
    """An artifact, without its bytes."""
    return ArtifactView(
        id=of.id,
        job_id=of.job_id,
        product_id=of.product_id,
        run_id=of.run_id,
        name=of.name,
        media_type=of.media_type,
        size=of.size,
        sha256=of.sha256,
        created_at=moment(of.created_at),
        created_by=of.created_by,
    )


class ArtifactsView(View, frozen=True, kw_only=True):
    """Artifacts, oldest first."""

    artifacts: list[ArtifactView]


class EventsView(View, frozen=True, kw_only=True):
    """Events in their order; ask again with `after` for more."""

    events: list[EventView]


class GrantView(View, frozen=True, kw_only=True):
    """A lease, with all that the worker needs to begin."""

    job: JobView
    lease_epoch: int
    expires_at: Moment
    run_id: str
    engine: str | None
    step: Step
    manifest: AsWritten
    body_md: str
    follow_ups: tuple[str, ...]
    protected_paths: tuple[str, ...]
    """Globs: a change there always needs a person's review."""
    worked_sec: float
    """What earlier runs have taken of `budget.wall`."""


def grant(of: Grant) -> GrantView:
    """A grant."""
    return GrantView(
        job=job(of.job),
        lease_epoch=of.lease.epoch,
        expires_at=moment(of.lease.expires_at),
        run_id=of.lease.run_id,
        engine=of.lease.engine,
        step=of.lease.step,
        manifest=of.manifest,
        body_md=of.body,
        follow_ups=of.job.follow_ups,
        protected_paths=of.protected_paths,
        worked_sec=of.job.worked_s,
    )


class UsageView(View, frozen=True, kw_only=True):
    """What a run has used, cumulative."""

    engine: str | None
    model: str | None
    tokens_in: int
    tokens_cached: int
    tokens_cache_write: int
    tokens_out: int
    tokens_reasoning: int
    cost_usd: Money | None
    estimated: bool
    turns: int
    tool_calls: int
    tools: dict[str, int]


def usage(of: Usage) -> UsageView:
    """The usage of a run."""
    nanos = of.cost_nano_usd
    return UsageView(
        engine=of.engine,
        model=of.model,
        tokens_in=of.tokens_in,
        tokens_cached=of.tokens_cached,
        tokens_cache_write=of.tokens_cache_write,
        tokens_out=of.tokens_out,
        tokens_reasoning=of.tokens_reasoning,
        cost_usd=None if nanos is None else format_usd(nanos),
        estimated=of.estimated,
        turns=of.turns,
        tool_calls=of.tool_calls,
        tools=of.tools,
    )


class RunView(View, frozen=True, kw_only=True):
    """One attempt at a job."""

    id: str
    job_id: str
    product_id: str
    factory_id: str
    lease_epoch: int
    number: int
    attempt: int
    step: Step
    engine: str | None
    repo: str | None
    profile: str | None
    granted_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    result: Result | None
    reason: str | None
    usage: UsageView | None
    verify: dict[str, Any] | None
    diff: dict[str, Any] | None
    versions: dict[str, str]
    """Of the engine, and of the tools that the job asked for or cannot do without."""
    wall_sec: float | None
    cpu_sec: float | None
    decision: dict[str, Any]
    """Why it went there, with the `propensity` of that choice."""
    parent_id: str | None
    """The composite that its job is part of."""
    review: Review | None
    edited_lines: int | None
    """Lines that people changed before it was shipped; null where nobody has looked."""
    """What people made of its work."""


def run(of: Run) -> RunView:
    """A run."""
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
        granted_at=moment(of.granted_at),
        started_at=maybe_moment(of.started_at),
        ended_at=maybe_moment(of.ended_at),
        result=of.result,
        reason=of.reason,
        usage=None if of.usage is None else usage(of.usage),
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


class RunsView(View, frozen=True, kw_only=True):
    """Every attempt at a job, oldest first."""

    runs: list[RunView]


class RenewedView(View, frozen=True, kw_only=True):
    """A lease that lasts longer now."""

    lease_epoch: int
    expires_at: Moment


class Done(View, frozen=True, kw_only=True):
    """It is done."""

    status: Literal["ok"] = "ok"
