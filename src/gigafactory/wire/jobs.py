"""Records of jobs: submission, listing, events, reviews, defects."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.job.job import Checkpoint, Priority, Result, Stage
from gigafactory.wire.fields import (
    Cursor,
    ManifestJson,
    PageLimit,
    RequestDoc,
    ResponseView,
    Sentence,
    Timestamp,
    Word,
)
from gigafactory.wire.files import ArtifactView
from gigafactory.wire.limits import PAGE_MAX
from gigafactory.wire.runs import RunView


class LeaseView(ResponseView, frozen=True, kw_only=True):
    """The factory that holds a job, and until when."""

    factory_id: str
    expires_at: Timestamp


class EventView(ResponseView, frozen=True, kw_only=True):
    """One event of a job, or of the audit log."""

    seq: int
    type: str
    at: Timestamp
    actor: str
    product_id: str
    job_id: str | None
    stage: Stage | None
    data: dict[str, Any]
    position: int


class JobView(ResponseView, frozen=True, kw_only=True):
    """The current state of a job."""

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
    created_at: Timestamp
    updated_at: Timestamp
    stage_since: Timestamp
    not_before: Timestamp | None
    flags: tuple[str, ...]
    actions: tuple[str, ...]
    """Actions that a person may apply now."""
    manifest: ManifestJson | UnsetType = UNSET
    """With `include=manifest`: as resolved at submission."""
    body: str | UnsetType = UNSET
    """With `include=body`."""
    events: tuple[EventView, ...] | UnsetType = UNSET
    """With `include=events`: the first 500."""
    runs: "tuple[RunView, ...] | UnsetType" = UNSET
    """With `include=runs`: every attempt, oldest first."""
    artifacts: "tuple[ArtifactView, ...] | UnsetType" = UNSET
    """With `include=artifacts`: its files, oldest first."""


class JobsView(ResponseView, frozen=True, kw_only=True):
    """A page of jobs; `nextCursor` gives the next page."""

    jobs: tuple[JobView, ...]
    next_cursor: str | UnsetType | None = UNSET


class EventsView(ResponseView, frozen=True, kw_only=True):
    """Events in order; pass `after` to get more."""

    events: tuple[EventView, ...]


class ActionDoc(RequestDoc, frozen=True, kw_only=True):
    """Details of an action."""

    reason: Sentence = ""
    """Reason, or the comment of a review."""
    comment: Sentence = ""
    """Alias of `reason`."""
    commit: Word | None = None
    """The commit that was looked at; a decision is refused if there is a newer one.

    Approve and ship need it once the job has a commit.
    """
    fresh: bool = False
    """With requeue: start without the checkpoint."""


class ProfilesView(ResponseView, frozen=True, kw_only=True):
    """Profiles by name, each in its newest version."""

    profiles: list[dict[str, Any]]


STAGES_PATTERN = "|".join(Stage)


INCLUDABLE = "manifest|body|events|runs|artifacts"


Include = Annotated[
    str,
    Meta(
        pattern=rf"^(({INCLUDABLE})(,({INCLUDABLE})){{0,4}})?$(?!\n)",
        description="parts to add, comma-separated: manifest, body, events, runs, artifacts",
    ),
]


Stages = Annotated[
    str,
    Meta(
        pattern=rf"^({STAGES_PATTERN})(,({STAGES_PATTERN})){{0,9}}$(?!\n)",
        description="one or more stages, comma-separated",
    ),
]


Ids = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(,[A-Za-z0-9][A-Za-z0-9._-]{0,199}){0,99}$(?!\n)",
        description="up to 100 ids, comma-separated; cannot be combined with other filters",
    ),
]


class JobFilter(RequestDoc, frozen=True, kw_only=True):
    """Filter of a list of jobs."""

    id: Ids | None = None
    stage: Stages | None = None
    repo: Word | None = None
    profile: Word | None = None
    engine: Word | None = None
    factory: Word | None = None
    priority: Priority | None = None
    parent: Word | None = None
    text: Annotated[str, Meta(max_length=200)] | None = None
    """Prefixes of words of the name or title."""
    sort: Annotated[str, Meta(pattern=r"^(newest|oldest)$(?!\n)")] = "newest"
    limit: PageLimit = 50
    cursor: Cursor | None = None
    """`nextCursor` of the previous page."""


class JobIncludes(RequestDoc, frozen=True, kw_only=True):
    """Additional parts of a job to return."""

    include: Include = ""


EVENT_NUMBER_MAX = 10**15


EventNumber = Annotated[int, Meta(ge=0, le=EVENT_NUMBER_MAX)]


class EventQuery(RequestDoc, frozen=True, kw_only=True):
    """Page of a job's events."""

    after: EventNumber = 0
    """Only events with a higher seq."""
    limit: PageLimit = PAGE_MAX


class ResumeQuery(RequestDoc, frozen=True, kw_only=True):
    """Where to resume; the header Last-Event-ID takes precedence."""

    after: EventNumber | None = None
