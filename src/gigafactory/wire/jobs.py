"""Records of jobs: submission, listing, events, reviews, defects."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.job.job import Checkpoint, Priority, Result, Stage
from gigafactory.domain.manifest.decoder import LIST_MAX
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.tracker.defect import REFERENCE_CHARS_MAX, Source
from gigafactory.wire.fields import Doc, ManifestJson, Sentence, Timestamp, View, Word
from gigafactory.wire.files import ArtifactView
from gigafactory.wire.limits import BATCH_MAX, PAGE_MAX
from gigafactory.wire.runs import RunView


class LeaseView(View, frozen=True, kw_only=True):
    """Who works on a job, and until when."""

    factory_id: str
    expires_at: Timestamp


class EventView(View, frozen=True, kw_only=True):
    """One line of a job's story, or of the audit log."""

    seq: int
    type: str
    at: Timestamp
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
    created_at: Timestamp
    updated_at: Timestamp
    stage_since: Timestamp
    not_before: Timestamp | None
    flags: tuple[str, ...]
    actions: tuple[str, ...]
    """What a person may do with it now."""
    manifest: ManifestJson | UnsetType = UNSET
    """With `include=manifest`: as it was resolved at the submit."""
    body: str | UnsetType = UNSET
    """With `include=body`."""
    events: tuple[EventView, ...] | UnsetType = UNSET
    """With `include=events`: the first 500."""
    runs: "tuple[RunView, ...] | UnsetType" = UNSET
    """With `include=runs`: every attempt, oldest first."""
    artifacts: "tuple[ArtifactView, ...] | UnsetType" = UNSET
    """With `include=artifacts`: the files that it has left behind, oldest first."""


class JobsView(View, frozen=True, kw_only=True):
    """Jobs in their order; `nextCursor` goes on after the last one."""

    jobs: tuple[JobView, ...]
    next_cursor: str | UnsetType | None = UNSET


class EventsView(View, frozen=True, kw_only=True):
    """Events in their order; ask again with `after` for more."""

    events: tuple[EventView, ...]


class JobDoc(Doc, frozen=True, kw_only=True):
    """A job in JSON: the manifest's fields in camelCase, and the instructions."""

    manifest: dict[str, Any] = msgspec.field(default_factory=dict)
    body: str = ""


class BatchDoc(Doc, frozen=True, kw_only=True):
    """Up to 1,000 jobs, all taken or none."""

    jobs: Annotated[list[JobDoc], Meta(min_length=1, max_length=BATCH_MAX)]


class WishDoc(Doc, frozen=True, kw_only=True):
    """What a person adds to an action."""

    reason: Sentence = ""
    """Why; the comment of a review."""
    comment: Sentence = ""
    """The same, as reviewers call it."""
    commit: Word | None = None
    """The commit that was looked at; a newer one voids the decision."""
    fresh: bool = False
    """With requeue: forget the checkpoint."""


class ChildrenDoc(Doc, frozen=True, kw_only=True):
    """Up to 10,000 children, all taken or none."""

    jobs: Annotated[list[JobDoc], Meta(min_length=1, max_length=CHILDREN_MAX)]


Decision = Literal["approve", "reject", "request-changes"]


class ReviewsView(View, frozen=True, kw_only=True):
    """Jobs that wait for the caller's review, the longest waiting first."""

    reviews: tuple[JobView, ...]


class ReviewDoc(Doc, frozen=True, kw_only=True):
    """A reviewer's decision."""

    decision: Decision
    comment: Sentence = ""
    commit: Word | None = None
    """The commit that was looked at; a newer one voids the decision."""


class AskedDoc(Doc, frozen=True, kw_only=True):
    """Who is asked to review a job."""

    reviewers: Annotated[tuple[Word, ...], Meta(max_length=LIST_MAX)] = ()
    """By name; without any, whoever may review."""
    quorum: Annotated[int, Meta(ge=1, le=LIST_MAX)] | None = None
    """How many of them must agree: as many as before by default."""
    comment: Sentence = ""


Reference = Annotated[str, Meta(min_length=1, max_length=REFERENCE_CHARS_MAX)]


class DefectDoc(Doc, frozen=True, kw_only=True):
    """Something that was wrong with a shipped job after all."""

    source: Source = Source.PERSON
    reference: Reference
    """The commit that takes it back, the ticket that names it, or a few words."""


class ProfilesView(View, frozen=True, kw_only=True):
    """The newest version of each profile, by name."""

    profiles: list[dict[str, Any]]


STAGES_PATTERN = "|".join(Stage)


BESIDE = "manifest|body|events|runs|artifacts"


Include = Annotated[
    str,
    Meta(
        pattern=rf"^(({BESIDE})(,({BESIDE})){{0,4}})?$(?!\n)",
        description="more of the job: manifest, body, events, runs, artifacts, with commas between",
    ),
]


Stages = Annotated[
    str,
    Meta(
        pattern=rf"^({STAGES_PATTERN})(,({STAGES_PATTERN})){{0,9}}$(?!\n)",
        description="one stage, or several with commas between",
    ),
]


Ids = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}(,[A-Za-z0-9][A-Za-z0-9._-]{0,199}){0,99}$(?!\n)",
        description="one id, or up to a hundred with commas between; it stands alone",
    ),
]


class FileName(Doc, frozen=True, kw_only=True):
    """What a job file is called, where it has no `name` of its own."""

    name: Annotated[str, Meta(max_length=200)] | None = None


class JobFilter(Doc, frozen=True, kw_only=True, omit_defaults=True):
    """Which jobs to list."""

    id: Ids | None = None
    stage: Stages | None = None
    repo: Word | None = None
    profile: Word | None = None
    engine: Word | None = None
    factory: Word | None = None
    priority: Priority | None = None
    parent: Word | None = None
    text: Annotated[str, Meta(max_length=200)] | None = None
    """Words that begin words of the name or title."""
    sort: Annotated[str, Meta(pattern=r"^(newest|oldest)$(?!\n)")] = "newest"
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=1000)] | None = None
    """`nextCursor` of the page before."""


class More(Doc, frozen=True, kw_only=True):
    """What to show beside the job."""

    include: Include = ""
