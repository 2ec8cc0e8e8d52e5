"""Records of files: artifacts, archived jobs, logs."""

from typing import Annotated

from msgspec import Meta

from gigafactory.domain.job.artifact import LINK_TTL, LINK_TTL_MAX
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp


class ArtifactView(ResponseView, frozen=True, kw_only=True):
    """A file of a job, from a run or added by a person."""

    id: str
    job_id: str
    product_id: str
    run_id: str | None
    name: str
    media_type: str
    size: int
    sha256: str
    created_at: Timestamp
    created_by: str


class ArtifactsView(ResponseView, frozen=True, kw_only=True):
    """Artifacts, oldest first."""

    artifacts: tuple[ArtifactView, ...]


class LinkDoc(RequestDoc, frozen=True, kw_only=True):
    """How long a link is valid."""

    expires_in: Annotated[
        float, Meta(ge=1, le=LINK_TTL_MAX.total_seconds(), description="seconds")
    ] = LINK_TTL.total_seconds()


class LinkView(ResponseView, frozen=True, kw_only=True):
    """A link that reads a file without a token until it expires; shown once."""

    path: str
    """Relative to the address of the coordinator."""
    expires_at: Timestamp


class ArchivedView(ResponseView, frozen=True, kw_only=True):
    """An archived job."""

    job_id: str
    product_id: str
    name: str
    title: str
    stage: str
    created_at: Timestamp
    finished_at: Timestamp
    archived_at: Timestamp
    size: int
    """Size of the compressed file."""
    sha256: str


class ArchiveView(ResponseView, frozen=True, kw_only=True):
    """Archived jobs, oldest first."""

    jobs: tuple[ArchivedView, ...]
    next_cursor: str | None


class LogEnd(ResponseView, frozen=True, kw_only=True):
    """Offset of the next chunk."""

    offset: int


class LogEvent(ResponseView, frozen=True, kw_only=True):
    """One message of a followed log."""

    offset: int
    text: str = ""
