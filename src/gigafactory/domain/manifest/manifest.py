"""The manifest of a job, as shared by job files, the API and the store."""

import hashlib
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

EngineClass = Literal["agentic-coder", "chat-coder", "review-only"]
PriorityName = Literal["critical", "high", "medium", "low"]
DepsMode = Literal["hard", "soft"]
OnDepFailure = Literal["wait", "fail"]
Ship = Literal["merge", "pr", "none"]
ShipPolicy = Literal["manual", "auto"]
MergeStyle = Literal["merge", "squash", "ff"]
Sandbox = Literal["none", "workspace", "strict"]
ScopeEnforcement = Literal["warn", "deny"]
Kind = Literal["leaf", "composite"]


class JobBudget(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Budget of one job over all of its runs; None means no limit."""

    usd_nanos: int | None = None
    tokens: int | None = None
    wall: timedelta | None = None


class Retry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How often, after which delay and for which results a job is retried."""

    max: int = 0
    backoff: timedelta | None = None
    on: tuple[str, ...] = ()


class ReviewPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who must approve: no one (`auto`), any reviewer (`manual`), or a quorum of named ones."""

    mode: Literal["auto", "manual", "reviewers"]
    reviewers: tuple[str, ...] = ()
    """Names without the leading `@`."""
    quorum: int = 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields of a job's manifest; None and () mean not given."""

    name: str | None = None
    title: str | None = None
    product: str | None = None
    repo: str | None = None
    base: str | None = None
    cwd: str | None = None
    engine: str | None = None
    engine_class: EngineClass | None = None
    prefers_engine: tuple[str, ...] = ()
    command: str | None = None
    model: str | None = None
    profile: str | None = None
    """`name`, or `name@version`; in a resolved snapshot always with its version."""
    capabilities: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    priority: PriorityName | None = None
    lock: str | None = None
    deps: tuple[str, ...] = ()
    deps_mode: DepsMode | None = None
    on_dep_failure: OnDepFailure | None = None
    setup: str | None = None
    verify: str | None = None
    verify_rounds: int | None = None
    timeout: timedelta | None = None
    stall: timedelta | None = None
    """Zero switches it off."""
    budget: JobBudget | None = None
    retry: Retry | None = None
    review_policy: ReviewPolicy | None = None
    ship: Ship | None = None
    ship_policy: ShipPolicy | None = None
    merge_style: MergeStyle | None = None
    wait_merge: bool | None = None
    yolo: bool | None = None
    sandbox: Sandbox | None = None
    allowed_scope: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    idempotency_key: str | None = None
    tracker_item: str | None = None
    kind: Kind | None = None
    parent: str | None = None
    phase: int | None = None
    children: "tuple[Child, ...]" = ()
    not_before: datetime | None = None
    delay: timedelta | None = None
    """`not-before` given as a duration, counted from the submission."""
    schedule: str | None = None
    scope_enforcement: ScopeEnforcement | None = None
    """Only in a resolved snapshot: taken from the profile."""
    persona: str | None = None
    """Only in a resolved snapshot: taken from the profile, so that a later edit changes nothing."""
    # Keys defined by the author: their values can be any JSON.
    extra: dict[str, Any] = {}
    """The keys that start with `x-`, unchanged."""


class Child(msgspec.Struct, frozen=True, rename="camel"):
    """One job of a composite: its manifest and its instructions."""

    manifest: Manifest
    body: str


class JobFile(msgspec.Struct, frozen=True, rename="camel"):
    """A submitted job: its manifest, and its instructions verbatim."""

    manifest: Manifest
    body: str


def earliest_start(manifest: Manifest, *, now: datetime) -> datetime | None:
    """Return the earliest start of the job; None if it may start at once."""
    if manifest.delay is not None:
        return now + manifest.delay
    return manifest.not_before


def content_hash(manifest: Manifest, body: str) -> str:
    """Return the SHA-256 of the content, ignoring the idempotency key."""
    content = msgspec.structs.replace(manifest, idempotency_key=None)
    canonical = msgspec.json.encode((content, body), order="sorted")
    return hashlib.sha256(canonical).hexdigest()
