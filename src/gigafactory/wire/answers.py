"""What the API answers, as its clients read it; what they do not know is passed over."""

from datetime import datetime
from typing import Any

import msgspec

from gigafactory.domain.job.job import Checkpoint, Event, Priority, Result, Stage, Step


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object of an answer."""


class Lease(Answer, frozen=True):
    """Who works on a job, and until when."""

    factory_id: str
    expires_at: datetime


class Job(Answer, frozen=True):
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
    lease: Lease | None
    checkpoint: Checkpoint | None
    parent_id: str | None
    phase: int | None
    created_at: datetime
    updated_at: datetime
    stage_since: datetime
    not_before: datetime | None
    flags: tuple[str, ...]
    actions: tuple[str, ...]
    """What a person may do with it now."""
    manifest: dict[str, Any] = {}
    """Where it was asked for."""
    body: str | None = None
    """Where it was asked for."""
    events: tuple[Event, ...] = ()
    """Where they were asked for."""
    runs: "tuple[Run, ...]" = ()
    """Where they were asked for."""
    artifacts: "tuple[Artifact, ...]" = ()
    """Where they were asked for."""


class Jobs(Answer, frozen=True):
    """Jobs in their order; `next_cursor` goes on after the last one."""

    jobs: tuple[Job, ...]
    next_cursor: str | None = None


class Events(Answer, frozen=True):
    """Events in their order."""

    events: tuple[Event, ...]


class Run(Answer, frozen=True):
    """One attempt at a job."""

    id: str
    factory_id: str
    lease_epoch: int
    number: int
    step: Step
    engine: str | None
    granted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    result: Result | None
    reason: str | None
    attempt: int = 1
    repo: str | None = None
    profile: str | None = None
    usage: dict[str, Any] | None = None
    verify: dict[str, Any] | None = None
    diff: dict[str, Any] | None = None
    versions: dict[str, str] = {}
    wall_sec: float | None = None
    cpu_sec: float | None = None
    decision: dict[str, Any] = {}
    review: str | None = None
    edited_lines: int | None = None


class Runs(Answer, frozen=True):
    """Every attempt at a job, oldest first."""

    runs: tuple[Run, ...]


class Artifact(Answer, frozen=True):
    """A file that a job has left behind, or that somebody has added to it."""

    id: str
    job_id: str
    run_id: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    created_at: datetime
    created_by: str


class Artifacts(Answer, frozen=True):
    """The files of a job, oldest first."""

    artifacts: tuple[Artifact, ...]


class ArtifactLink(Answer, frozen=True):
    """A link to a file, shown this once; its path goes after the coordinator's address."""

    path: str
    expires_at: datetime


class ArchivedJob(Answer, frozen=True):
    """A job that lies in the archive."""

    job_id: str
    product_id: str
    name: str
    title: str
    stage: str
    finished_at: datetime
    archived_at: datetime
    size: int
    sha256: str


class ArchivePage(Answer, frozen=True):
    """Archived jobs, oldest first."""

    jobs: tuple[ArchivedJob, ...]
    next_cursor: str | None = None


class AuditPage(Answer, frozen=True):
    """Events that concern no job, newest first."""

    events: tuple[Event, ...]
    next_cursor: str | None = None


class Engine(Answer, frozen=True):
    """One engine on one factory."""

    version: str | None = None
    seats: int = 1
    cooling_until: datetime | None = None
    unavailable: str | None = None


class Factory(Answer, frozen=True):
    """One machine as it is now."""

    id: str
    online: bool
    health: float
    draining: bool
    streaming: bool
    last_seen: datetime | None
    enrolled_at: datetime
    products: tuple[str, ...]
    os: str | None
    labels: tuple[str, ...]
    capabilities: tuple[str, ...]
    engines: dict[str, Engine]
    slots: int
    repos: tuple[str, ...]
    version: str | None
    jobs: tuple[Job, ...] = ()
    """Where one factory is asked for."""


class Factories(Answer, frozen=True):
    """Factories by id."""

    factories: tuple[Factory, ...]


class Invitation(Answer, frozen=True):
    """A one-time secret, shown this once."""

    id: str
    secret: str
    expires_at: datetime


class Membership(Answer, frozen=True):
    """A factory's own token, shown this once."""

    factory_id: str
    token: str


class Token(Answer, frozen=True):
    """A token, with its secret only where it is made."""

    id: str
    kind: str
    user: str
    role: str | None
    products: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    secret: str | None = None


class Login(Answer, frozen=True):
    """A one-time code for a browser."""

    code: str
    expires_at: datetime


class Tokens(Answer, frozen=True):
    """Tokens, oldest first."""

    tokens: tuple[Token, ...]


class JobToken(Answer, frozen=True):
    """The token of a job's agent, shown this once."""

    job_id: str
    token: str
    expires_at: datetime


class Switch(Answer, frozen=True):
    """The kill switch of a product, or with `*` of the fleet."""

    product: str
    halted: bool
    by: str
    reason: str
    at: datetime
    stopping: int | None = None
    """After a halt with `stop`: how many workers were asked to hand back."""


class Matter(Answer, frozen=True):
    """One thing that waits for a person."""

    kind: str
    subject: str
    title: str
    since: datetime
    reason: str
    actions: tuple[str, ...]
    product_id: str | None


class Attention(Answer, frozen=True):
    """What waits for a person, the most urgent kind first."""

    attention: tuple[Matter, ...]


class Profiles(Answer, frozen=True):
    """Profiles by name, each in its newest version, in the words in which people write them."""

    profiles: tuple[dict[str, Any], ...]


class LogPiece(Answer, frozen=True):
    """A piece of a log that is followed."""

    offset: int
    text: str = ""


class Grant(Answer, frozen=True):
    """A lease, with all that the worker needs to begin."""

    job: Job
    lease_epoch: int
    expires_at: datetime
    run_id: str
    engine: str | None
    step: Step
    manifest: dict[str, Any]
    body_md: str
    follow_ups: tuple[str, ...]
    protected_paths: tuple[str, ...] = ()
    worked_sec: float = 0.0


class QueueState(Answer, frozen=True):
    """A number that grows with every change of the queue that the caller may see."""

    version: int


class Renewed(Answer, frozen=True):
    """A lease that lasts longer now."""

    lease_epoch: int
    expires_at: datetime


class Command(Answer, frozen=True):
    """Something that a factory is told to do."""

    type: str
    job_id: str | None = None


class Heard(Answer, frozen=True):
    """What the coordinator says to a heartbeat."""

    server_time: datetime
    settings: dict[str, float]
    commands: tuple[Command, ...]


class LogEnd(Answer, frozen=True):
    """The offset to go on from."""

    offset: int


class Budget(Answer, frozen=True):
    """What a product may spend, and has; sums in dollars, as decimal numbers."""

    product_id: str
    ceiling_usd: str | None
    period: str
    reserve_usd: str
    at_ceiling: str
    spent_usd: str
    estimated_usd: str
    reserved_usd: str
    left_usd: str | None
    percent: int
    warning: int
    period_ends: datetime | None
    paused: bool
    paused_by: str | None
    says: str


class SpentDay(Answer, frozen=True):
    """What was spent on one day."""

    day: str
    spent_usd: str
    sum_usd: str
    left_usd: str | None


class Burndown(Answer, frozen=True):
    """The days of a budget's period."""

    product_id: str
    period: str
    ceiling_usd: str | None
    days: tuple[SpentDay, ...]
