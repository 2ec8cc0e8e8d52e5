"""Records of files: artifacts, archived jobs, logs."""

from typing import Annotated

from msgspec import Meta

from gigafactory.domain.job.artifact import (
    DEFAULT_MEDIA_TYPE,
    LINK_TTL,
    LINK_TTL_MAX,
    NAME_CHARS_MAX,
    Purpose,
)
from gigafactory.wire.fields import (
    Cursor,
    Epoch,
    PageLimit,
    RequestDoc,
    ResponseView,
    Timestamp,
    Word,
)
from gigafactory.wire.limits import LOG_BYTES_MAX

Offset = Annotated[int, Meta(ge=0, le=LOG_BYTES_MAX, description="bytes")]


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


class ArtifactUploadQuery(RequestDoc, frozen=True, kw_only=True):
    """Description of the uploaded bytes."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
    """A relative path, as in the worktree: `reports/coverage.html`."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$(?!\n)")]
    """Hash of the bytes; a mismatch is refused."""
    media_type: Annotated[str, Meta(min_length=3, max_length=250)] = DEFAULT_MEDIA_TYPE
    size: Annotated[int, Meta(ge=0, le=1 << 40)] | None = None
    """Size of the bytes, if known in advance."""
    lease_epoch: Epoch | None = None
    """For workers: the fencing epoch of the lease."""
    purpose: Purpose = Purpose.FILE
    """`diff` for the run's diff, which `GET …/diff` returns; a newer one replaces it."""


class ArtifactQuery(RequestDoc, frozen=True, kw_only=True):
    """Access without a token."""

    link: Word | None = None
    """The secret of a link to this artifact."""


class ArchiveQuery(RequestDoc, frozen=True, kw_only=True):
    """Page of the archive."""

    limit: PageLimit = 50
    cursor: Cursor | None = None
    """`nextCursor` of the previous page."""


class LogChunkQuery(RequestDoc, frozen=True, kw_only=True):
    """Position of a log chunk."""

    lease_epoch: Epoch
    offset: Offset


class LogReadQuery(RequestDoc, frozen=True, kw_only=True):
    """Part of a run's log."""

    run: Word | None = None
    """Id or number of the run; default: the newest."""
    offset: Offset = 0
    limit: Annotated[int, Meta(ge=1, le=LOG_BYTES_MAX)] | None = None
    """Maximum number of bytes."""
    tail: Annotated[int, Meta(ge=1, le=LOG_BYTES_MAX)] | None = None
    """Number of bytes from the end."""
    follow: bool = False
    """Follow as server-sent events until the run ends."""

    @property
    def is_whole(self) -> bool:
        """Whether the query selects no part of the log."""
        return not self.offset and self.limit is None and self.tail is None
