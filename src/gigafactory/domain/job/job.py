"""The records of a job: stages, results, lease, offer, events and specification."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Stage(StrEnum):
    """A stage of the job lifecycle."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    BUILDING = "building"
    REVIEW = "review"
    TESTING = "testing"
    SHIPPED = "shipped"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"


FINAL = frozenset({Stage.SHIPPED, Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED})
"""The stages in which a job is finished, unless an operator requeues it."""

RUNNING = frozenset({Stage.ASSIGNED, Stage.BUILDING})
"""The stages in which a factory runs the job."""

PLANNER = "planner"
"""The profile of a child job that plans its composite."""

PROTECTED = "protected_path"
"""Flag: the work changed a protected path, so people must review and ship it."""

EDITED = "edited"
"""Flag: people changed the work after the run had ended."""

OVER_BUDGET = "over_budget"
"""Flag: the budget of the composite is spent, so none of its descendants starts."""

BOARD = {
    "inbox": (Stage.BLOCKED, Stage.QUEUED, Stage.ASSIGNED),
    "building": (Stage.BUILDING,),
    "review": (Stage.REVIEW,),
    "testing": (Stage.TESTING,),
    "shipped": (Stage.SHIPPED,),
    "failed": (Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED),
}
"""The six columns of a board, and the stages that each one shows."""


class Result(StrEnum):
    """The result of a run or of a job."""

    OK = "ok"
    TIMEOUT = "timeout"
    BUDGET_EXCEEDED = "budget_exceeded"
    CRASH = "crash"
    VERIFY_FAILED = "verify_failed"
    SETUP_FAILED = "setup_failed"
    NO_CHANGE = "no_change"
    SCOPE_VIOLATION = "scope_violation"
    CONTEXT_TOO_LONG = "context_too_long"
    MERGE_CONFLICT = "merge_conflict"
    REJECTED = "rejected"
    RETRIES_EXHAUSTED = "retries_exhausted"
    POISON = "poison"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    DEP_FAILED = "dep_failed"
    RATE_LIMITED = "rate_limited"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    OVERLOADED = "overloaded"
    PREEMPTED = "preempted"
    RELEASED = "released"
    LOST = "lost"


class Priority(StrEnum):
    """The priority class of a job."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """The sort position; 0 is the most urgent."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class Step(StrEnum):
    """The purpose of a lease: run the job, or ship it."""

    RUN = "run"
    SHIP = "ship"


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The saved work in progress: a git commit and the engine's session."""

    branch: str
    commit: str
    engine: str | None = None
    session_id: str | None = None
    factory_id: str | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A time-boxed, exclusive claim of a job by one factory, with a fencing epoch.

    Stores keep `expires_at` outside the job document, because renewals change nothing else; a job
    that is read carries the current value.
    """

    factory_id: str
    instance_id: str
    epoch: int
    run_id: str
    step: Step
    engine: str | None
    granted_at: datetime
    expires_at: datetime
    holds: tuple[str, ...] = ()
    """Unique keys released with the lease: the job's lock, a slot, seats."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The dispatcher's offer of a job to one factory, before the lease."""

    number: int
    factory_id: str
    engine: str | None
    step: Step
    expires_at: datetime
    decision: dict[str, Any] = {}
    """Why this factory was chosen; copied to the lease grant."""


class Exclusion(msgspec.Struct, frozen=True, rename="camel"):
    """A factory that gets no offer of this job until a given time."""

    factory_id: str
    until: datetime


class Preemption(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pending request to the worker to checkpoint and hand the job back."""

    by: str
    reason: str
    deadline: datetime


class ShipRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request to ship: the job is queued again, with step `ship`."""

    by: str
    commit: str | None
    at: datetime


class Ask(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job requires of a factory; the scheduler groups jobs with equal requirements."""

    needs: tuple[str, ...] = ()
    """Required capability tokens of job and profile, sorted and unique."""
    repo: str | None = None
    """The short name, as in `repo:<name>`."""
    engine: str | None = None
    engine_class: str = "agentic-coder"
    prefers_engine: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    budget_nano_usd: int | None = None
    sandbox: str | None = None
    """The required sandbox level; None leaves it to the factory."""
    yolo: bool = False


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rules of the manifest that the lifecycle needs: retry, review, ship, dependencies."""

    retry_max: int = 0
    retry_backoff_s: float = 30.0
    retry_on: tuple[Result, ...] | None = None
    verify: bool = False
    review_by_people: bool = True
    reviewers: tuple[str, ...] = ()
    quorum: int = 1
    ship: str = "merge"
    auto_ship: bool = False
    deps_mode: str = "hard"
    on_dep_failure: str = "wait"
    schedule: str | None = None


class Roadmap(msgspec.Struct, frozen=True, rename="camel"):
    """The plan state of a composite; the state of its children is never stored here."""

    revision: int = 1
    """The number of the current plan."""
    phase: int | None = None
    """The open phase: children of later phases wait. None if no child has a phase."""
    asked: int | None = None
    """The phase that waits for approval."""


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One unit of work in its current state; its manifest and body are in `JobSpec`."""

    id: str
    product_id: str
    name: str
    title: str
    ask: Ask
    terms: Terms
    content_hash: str
    submitted_by: str
    created_at: datetime
    updated_at: datetime
    stage_since: datetime
    stage: Stage = Stage.QUEUED
    kind: str = "leaf"
    priority: Priority = Priority.MEDIUM
    lock: str | None = None
    profile: str | None = None
    """The resolved profile with its version: `name@3`."""
    model: str | None = None
    """The requested model; None leaves it to the engine."""
    words: int | None = None
    """The number of words of its instructions: a rough measure of its size."""
    deps: tuple[str, ...] = ()
    parent_id: str | None = None
    phase: int | None = None
    roadmap: Roadmap | None = None
    """Only for composites."""
    ceilings: tuple[str, ...] = ()
    """Of a composite: itself and the composites above it that have a budget."""
    idempotency_key: str | None = None
    tracker_item: str | None = None
    rev: int = 1
    seq: int = 0
    """The number of its newest event."""
    lease_epoch: int = 0
    lease: Lease | None = None
    ending: tuple[Lease, ...] = ()
    """Revoked leases whose worker still runs: their unique keys stay held until it stops."""
    offer: Offer | None = None
    offers: int = 0
    exclusions: tuple[Exclusion, ...] = ()
    preemption: Preemption | None = None
    ship: ShipRequest | None = None
    checkpoint: Checkpoint | None = None
    engine: str | None = None
    """The engine of the latest run."""
    attempts: int = 0
    lost_instances: tuple[str, ...] = ()
    """The factory processes that lost the last `lost` leases, oldest first."""
    lost: int = 0
    """Leases lost in a row without a new checkpoint."""
    runs: int = 0
    worked_s: float = 0.0
    """Seconds of all runs since it was submitted or requeued."""
    preempted: int = 0
    not_before: datetime | None = None
    front: bool = False
    """Promoted or preempted: first in its priority class."""
    result: Result | None = None
    reason: str | None = None
    verified: bool | None = None
    follow_ups: tuple[str, ...] = ()
    """Review comments that the next run gets as instructions."""
    approvals: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    """Defects reported after it was shipped: `revert:…`, `ticket:…`."""
    fenced: tuple[str, ...] = ()
    """Stale workers whose writes were refused: `factory@epoch`."""
    flags: tuple[str, ...] = ()
    superseded_by: str | None = None
    """The newer job that replaced this one and took over its dependents."""
    copy_id: str | None = None
    """Of a schedule's template: the copy that it submitted last."""

    @property
    def head(self) -> str | None:
        """The commit to review and to ship."""
        return self.checkpoint.commit if self.checkpoint else None

    @property
    def unapproved(self) -> bool:
        """Whether the work was edited after its approval and needs another one."""
        needs_review = self.stage is Stage.TESTING and self.terms.review_by_people
        return needs_review and EDITED in self.flags

    @property
    def step(self) -> Step | None:
        """What a factory could do for this job now; None if nothing."""
        if self.stage is Stage.QUEUED:
            # A composite progresses through its children: no factory runs it.
            return None if self.composite else Step.RUN
        if self.stage is Stage.TESTING and self.ship is not None and self.lease is None:
            return Step.SHIP
        return None

    @property
    def ready_since(self) -> datetime:
        """Since when a waiting job could have been assigned: not before any back-off has ended."""
        since = self.ship.at if self.ship is not None else self.stage_since
        return since if self.not_before is None else max(since, self.not_before)

    @property
    def composite(self) -> bool:
        """Whether it expands into child jobs."""
        return self.kind == "composite"

    @property
    def over_budget(self) -> bool:
        """Whether the budget of this composite is spent."""
        return OVER_BUDGET in self.flags

    @property
    def planner(self) -> bool:
        """Whether it writes the plan of the composite that it belongs to."""
        profile = (self.profile or "").partition("@")[0]
        return profile == PLANNER and self.parent_id is not None and not self.composite

    @property
    def finished(self) -> bool:
        """Whether the job is in a final stage."""
        return self.stage in FINAL


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event in a job's history, or in the fleet's audit log (then `job_id` is None)."""

    type: str
    at: datetime
    actor: str
    product_id: str
    job_id: str | None = None
    seq: int = 0
    stage: Stage | None = None
    data: dict[str, Any] = {}
    position: int = 0
    """The position in the change feed, assigned by the store."""


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The immutable specification of a job: the resolved manifest and the body."""

    job_id: str
    manifest: msgspec.Raw
    body: str
