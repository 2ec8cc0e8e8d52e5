"""A job, its lease, its offer and its events: the records that everything else is about."""

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Stage(StrEnum):
    """Where a job stands."""

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
"""The stages that end a job, until an operator reopens it."""

RUNNING = frozenset({Stage.ASSIGNED, Stage.BUILDING})
"""The stages in which a run of the job is under way."""

PLANNER = "planner"
"""The profile of a child that writes the plan of its composite."""

PROTECTED = "protected_path"
"""The flag of work that changed a protected path: people look at it, and people ship it."""

EDITED = "edited"
"""The flag of work that people have changed themselves since it was handed in."""

OVER_BUDGET = "over_budget"
"""The flag of a composite below which nothing begins any more: what it may spend is spent."""

BOARD = {
    "inbox": (Stage.BLOCKED, Stage.QUEUED, Stage.ASSIGNED),
    "building": (Stage.BUILDING,),
    "review": (Stage.REVIEW,),
    "testing": (Stage.TESTING,),
    "shipped": (Stage.SHIPPED,),
    "failed": (Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED),
}
"""The six columns that boards collapse the stages onto."""


class Result(StrEnum):
    """How a run, or the whole job, came out."""

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
    """How urgent a job is; `rank` 0 goes first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """The place of this priority in the order, 0 for the most urgent."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class Step(StrEnum):
    """What a lease is for."""

    RUN = "run"
    SHIP = "ship"


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the work in progress is kept."""

    branch: str
    commit: str
    engine: str | None = None
    session_id: str | None = None
    factory_id: str | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The exclusive, time-boxed claim of one factory on one job.

    `expires_at` is kept apart from the job by every store, because renewals move it alone; a job
    that is read carries the newest one.
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
    """The lock, slot and seats that end with this lease."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The dispatcher's proposal of a job to one factory, before the lease."""

    number: int
    factory_id: str
    engine: str | None
    step: Step
    expires_at: datetime
    decision: dict[str, Any] = {}
    """The breakdown of why a factory was chosen, for the grant that may follow."""


class Exclusion(msgspec.Struct, frozen=True, rename="camel"):
    """A factory that is not asked about this job for a while."""

    factory_id: str
    until: datetime


class Preemption(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A standing request to a worker to checkpoint and hand its job back."""

    by: str
    reason: str
    deadline: datetime


class ShipRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody asked for the job to be shipped: it is a candidate again, with step `ship`."""

    by: str
    commit: str | None
    at: datetime


class Ask(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job wants of a factory: jobs with equal asks form one class of the scheduler."""

    needs: tuple[str, ...] = ()
    """Required capability tokens of job and profile, sorted, without repetition."""
    repo: str | None = None
    """The short name, as in `repo:<name>`."""
    engine: str | None = None
    engine_class: str = "agentic-coder"
    prefers_engine: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    budget_nano_usd: int | None = None
    sandbox: str | None = None
    """What its runs must be kept in; None leaves it to the factory."""
    yolo: bool = False


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the lifecycle must know of the manifest: when to retry, who reviews, how it ships."""

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
    """How far a composite has got with its plan; what its children did is never kept here."""

    revision: int = 1
    """How often children were planned for it."""
    phase: int | None = None
    """Children of later phases wait; None while no child has a phase."""
    asked: int | None = None
    """The phase that a person is asked to let begin."""


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One unit of work and all that is known of it now; body and manifest are kept apart."""

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
    """The profile with the version that the job was resolved with: `name@3`."""
    model: str | None = None
    """The model that it asks for; None leaves it to the engine."""
    words: int | None = None
    """How many words of instructions it has: the little that is known of its size."""
    deps: tuple[str, ...] = ()
    parent_id: str | None = None
    phase: int | None = None
    roadmap: Roadmap | None = None
    """Of a composite alone."""
    ceilings: tuple[str, ...] = ()
    """Of a composite: those whose ceilings hold for what is below it, itself or above it."""
    idempotency_key: str | None = None
    tracker_item: str | None = None
    rev: int = 1
    seq: int = 0
    """The number of the job's newest event."""
    lease_epoch: int = 0
    lease: Lease | None = None
    ending: tuple[Lease, ...] = ()
    """Leases that were taken away while the worker still ran: their holds last until it says so."""
    offer: Offer | None = None
    offers: int = 0
    exclusions: tuple[Exclusion, ...] = ()
    preemption: Preemption | None = None
    ship: ShipRequest | None = None
    checkpoint: Checkpoint | None = None
    engine: str | None = None
    """The engine of the newest run."""
    attempts: int = 0
    lost: int = 0
    """Leases lost in a row without a newer checkpoint."""
    runs: int = 0
    worked_s: float = 0.0
    """Seconds in all of its runs together, since it was submitted or requeued."""
    preempted: int = 0
    not_before: datetime | None = None
    front: bool = False
    """Promoted, or preempted: goes before the others of its priority class."""
    result: Result | None = None
    reason: str | None = None
    verified: bool | None = None
    follow_ups: tuple[str, ...] = ()
    """Instructions for the next run, from reviewers."""
    approvals: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    """What was found wrong with it after it had been shipped: `revert:…`, `ticket:…`."""
    fenced: tuple[str, ...] = ()
    """Whose late writes were refused already: `factory@epoch`."""
    flags: tuple[str, ...] = ()
    superseded_by: str | None = None
    """The newer job that took over this one's idempotency key, and its dependents."""
    copy_id: str | None = None
    """The newest copy that a schedule's template has submitted."""

    @property
    def head(self) -> str | None:
        """The commit that a reviewer looks at and a ship delivers."""
        return self.checkpoint.commit if self.checkpoint else None

    @property
    def unapproved(self) -> bool:
        """Whether people must approve once more: the work was changed after they had."""
        asked = self.stage is Stage.TESTING and self.terms.review_by_people
        return asked and EDITED in self.flags

    @property
    def step(self) -> Step | None:
        """What a factory could do for this job now; None when it is not a factory's turn."""
        if self.stage is Stage.QUEUED:
            # A composite goes on through its children: no factory ever runs it.
            return None if self.composite else Step.RUN
        if self.stage is Stage.TESTING and self.ship is not None and self.lease is None:
            return Step.SHIP
        return None

    @property
    def composite(self) -> bool:
        """Whether the job is the sum of its children."""
        return self.kind == "composite"

    @property
    def over_budget(self) -> bool:
        """Whether nothing below this composite begins any more, because all is spent."""
        return OVER_BUDGET in self.flags

    @property
    def planner(self) -> bool:
        """Whether its plan file becomes children of the composite that it is part of."""
        profile = (self.profile or "").partition("@")[0]
        return profile == PLANNER and self.parent_id is not None and not self.composite

    @property
    def finished(self) -> bool:
        """Whether the job has come to an end."""
        return self.stage in FINAL


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a job's story, or of the fleet's audit log (then `job_id` is None)."""

    type: str
    at: datetime
    actor: str
    product_id: str
    job_id: str | None = None
    seq: int = 0
    stage: Stage | None = None
    data: dict[str, Any] = {}
    position: int = 0
    """Its place in the change feed, given by the store at commit."""


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What was asked for, kept once and never changed: the resolved manifest and the body."""

    job_id: str
    manifest: msgspec.Raw
    body: str
