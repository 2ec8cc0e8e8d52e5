"""Records of reviews and of escaped defects."""

from typing import Annotated, Literal

from msgspec import Meta

from gigafactory.domain.manifest.decoder import LIST_MAX
from gigafactory.domain.tracker.defect import REFERENCE_CHARS_MAX, Source
from gigafactory.wire.fields import RequestDoc, ResponseView, Sentence, Word
from gigafactory.wire.jobs import JobView

Decision = Literal["approve", "reject", "request-changes"]


class ReviewsView(ResponseView, frozen=True, kw_only=True):
    """Jobs that wait for the caller's review, the longest waiting first."""

    reviews: tuple[JobView, ...]


class ReviewDoc(RequestDoc, frozen=True, kw_only=True):
    """A reviewer's decision."""

    decision: Decision
    comment: Sentence = ""
    commit: Word | None = None
    """The commit that was looked at; a newer one voids the decision."""


class ReviewRequestDoc(RequestDoc, frozen=True, kw_only=True):
    """Who is asked to review a job."""

    reviewers: Annotated[tuple[Word, ...], Meta(max_length=LIST_MAX)] = ()
    """By name; without any, whoever may review."""
    quorum: Annotated[int, Meta(ge=1, le=LIST_MAX)] | None = None
    """How many of them must agree: as many as before by default."""
    comment: Sentence = ""


Reference = Annotated[str, Meta(min_length=1, max_length=REFERENCE_CHARS_MAX)]


class DefectDoc(RequestDoc, frozen=True, kw_only=True):
    """Something that was wrong with a shipped job after all."""

    source: Source = Source.PERSON
    reference: Reference
    """The commit that takes it back, the ticket that names it, or a few words."""
