"""Records of reviews and of escaped defects."""

from typing import Annotated, Literal

from msgspec import Meta

from gigafactory.domain.manifest.decoder import LIST_MAX
from gigafactory.domain.tracker.defect import REFERENCE_CHARS_MAX, DefectSource
from gigafactory.wire.fields import RequestDoc, ResponseView, Sentence, Word
from gigafactory.wire.jobs import JobView

Decision = Literal["approve", "reject", "request-changes"]


class ReviewsView(ResponseView, frozen=True, kw_only=True):
    """Jobs that wait for the caller's review, longest waiting first."""

    reviews: tuple[JobView, ...]


class ReviewDoc(RequestDoc, frozen=True, kw_only=True):
    """A reviewer's decision."""

    decision: Decision
    comment: Sentence = ""
    commit: Word | None = None
    """The commit that was looked at; the decision is refused if there is a newer one.

    Approve needs it once the job has a commit.
    """


class ReviewRequestDoc(RequestDoc, frozen=True, kw_only=True):
    """A review request."""

    reviewers: Annotated[tuple[Word, ...], Meta(max_length=LIST_MAX)] = ()
    """Names of reviewers; empty: any reviewer."""
    quorum: Annotated[int, Meta(ge=1, le=LIST_MAX)] | None = None
    """Number of approvals needed; default: unchanged."""
    comment: Sentence = ""


Reference = Annotated[str, Meta(min_length=1, max_length=REFERENCE_CHARS_MAX)]


class DefectDoc(RequestDoc, frozen=True, kw_only=True):
    """A defect found in a shipped job."""

    source: DefectSource = DefectSource.PERSON
    reference: Reference
    """The reverting commit, the ticket, or a short description."""
