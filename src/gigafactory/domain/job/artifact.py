"""Artifacts: files that runs or people attach to a job; the bytes are in the blob store."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from gigafactory.domain.errors import Fault, Invalid, TooLarge
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, JobChange
from gigafactory.domain.job.diff import DIFF_BYTES_MAX
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.manifest.names import line

ARTIFACTS_MAX = 500
"""The limit of one job over all of its runs: they fit on one page."""
NAME_CHARS_MAX = 300
DEFAULT_MEDIA_TYPE = "application/octet-stream"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,99}"  # noqa: S105 - RFC 6838's word for a name
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:; ?charset=[A-Za-z0-9._-]{{1,40}})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def artifact_name(text: str) -> str:
    """Return `text` if it is a relative path below the worktree; else ValueError."""
    if line(text, chars_max=NAME_CHARS_MAX) != text or _SURROGATE.search(text) or "\\" in text:
        raise ValueError("a name without backslashes, and without spaces at its ends")
    if not {"", ".", ".."}.isdisjoint(text.split("/")):
        raise ValueError("a relative path without `..`, such as reports/coverage.html")
    return text


def media_type(text: str) -> str:
    """Return `text` if it is an HTTP media type; else ValueError."""
    if not _MEDIA_TYPE.fullmatch(text):
        raise ValueError("a media type such as text/html; charset=utf-8")
    return text


def sha256(text: str) -> str:
    """Return `text` if it is a SHA-256 in hexadecimal; else ValueError."""
    if not _SHA256.fullmatch(text):
        raise ValueError("the SHA-256 of the bytes, as 64 lower-case hexadecimal digits")
    return text


class Purpose(StrEnum):
    """What an artifact is for."""

    FILE = "file"
    """A file for people to download."""
    DIFF = "diff"
    """The changes of a run: a `WorkDiff`, one per run."""


class ArtifactUpload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Metadata that an uploader sends ahead of the bytes."""

    name: str
    sha256: str
    media_type: str = DEFAULT_MEDIA_TYPE
    size: int | None = None
    """None if not known in advance."""
    purpose: Purpose = Purpose.FILE

    def check(self, *, bytes_max: int) -> None:
        """Validate the metadata before any bytes are read.

        Raises Invalid with every fault, TooLarge.
        """
        faults = [
            *_faults("name", artifact_name, self.name),
            *_faults("sha256", sha256, self.sha256),
            *_faults("mediaType", media_type, self.media_type),
        ]
        if faults:
            raise Invalid("the artifact", faults)
        if self.size is not None:
            require_size(self.size, bytes_max=self.size_limit(bytes_max))

    def size_limit(self, allowed: int) -> int:
        """Return the size limit of this upload, given the limit of ordinary files."""
        return min(allowed, DIFF_BYTES_MAX) if self.purpose is Purpose.DIFF else allowed

    def check_content(self, *, size: int, digest: str) -> None:
        """Check the received size and SHA-256 against the announced ones.

        Raises Invalid.
        """
        faults = []
        if self.size not in (None, size):
            faults.append(Fault("size", f"announced {self.size} bytes, received {size}"))
        if self.sha256 != digest:
            faults.append(Fault("sha256", f"announced {self.sha256}, received {digest}"))
        if faults:
            raise Invalid("the artifact", faults)


def _faults(field: str, check: Callable[[str], str], text: str) -> Iterator[Fault]:
    try:
        check(text)
    except ValueError as expected:
        yield Fault(field, f"found {text[:100]!r}; expected {expected}")


def require_size(size: int, *, bytes_max: int) -> None:
    """Refuse an artifact above the size limit.

    Raises TooLarge.
    """
    if size > bytes_max:
        raise TooLarge(
            f"an artifact has at most {bytes_max} bytes; compress it or leave something out"
        )


def require_artifact_quota(present: int) -> None:
    """Refuse an artifact if the job already has the maximum number.

    Raises TooLarge.
    """
    if present >= ARTIFACTS_MAX:
        raise TooLarge(
            f"a job has at most {ARTIFACTS_MAX} artifacts; delete some, or pack many into one"
        )


class Artifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file attached to a job by a run or a person; kept until it is deleted."""

    kind: ClassVar[str] = "artifact"
    expires_at: ClassVar[None] = None

    id: str
    job_id: str
    product_id: str
    run_id: str | None = None
    """None if a person added it."""
    epoch: int | None = None
    name: str
    media_type: str
    size: int
    sha256: str
    created_at: datetime
    created_by: str
    purpose: Purpose = Purpose.FILE
    rev: int = 1

    @property
    def key(self) -> str:
        """The id, which begins with the job's id."""
        return self.id

    @property
    def blob(self) -> str:
        """The key of the bytes in the blob store."""
        return blob_key(self.job_id, self.id)

    def matches(self, upload: ArtifactUpload, run_id: str | None) -> bool:
        """Whether this is the same upload of the same run (None: a person), sent again."""
        own = (self.run_id, self.purpose, self.name, self.sha256)
        return own == (run_id, upload.purpose, upload.name, upload.sha256)

    def is_replaced_by(self, upload: ArtifactUpload, run_id: str | None) -> bool:
        """Whether `upload` replaces this artifact: a run keeps only its newest diff."""
        diffs = self.purpose is Purpose.DIFF and upload.purpose is Purpose.DIFF
        return diffs and self.run_id == run_id and not self.matches(upload, run_id)


def artifact_id(job_id: str, unique: str) -> str:
    """Return the id of a job's artifact; ids of one job sort by creation."""
    return f"{job_id}.{unique}"


def blob_key(job_id: str, artifact_id_: str) -> str:
    """Return the key of an artifact's bytes in the blob store."""
    return f"artifacts/{job_id}/{artifact_id_.rpartition('.')[2]}"


def new_artifact(
    job: Job,
    upload: ArtifactUpload,
    size: int,
    *,
    unique: str,
    lease: Lease | None,
    actor: str,
    now: datetime,
) -> Artifact:
    """Return the record of an upload whose content was checked."""
    return Artifact(
        id=artifact_id(job.id, unique),
        job_id=job.id,
        product_id=job.product_id,
        run_id=lease.run_id if lease else None,
        epoch=lease.epoch if lease else None,
        name=upload.name,
        media_type=upload.media_type,
        size=size,
        sha256=upload.sha256,
        created_at=now,
        created_by=actor,
        purpose=upload.purpose,
    )


def add_artifact(job: Job, artifact: Artifact, *, now: datetime) -> JobChange:
    """Return the change that records a new artifact of the job."""
    note = _event_data(artifact)
    kind = (
        event_types.DIFF_ADDED if artifact.purpose is Purpose.DIFF else event_types.ARTIFACT_ADDED
    )
    return transition(job, None, (kind, note), actor=artifact.created_by, now=now)


def delete_artifact(job: Job, artifact: Artifact, *, actor: str, now: datetime) -> JobChange:
    """Return the change that records the deletion of an artifact."""
    note = _event_data(artifact)
    return transition(job, None, (event_types.ARTIFACT_DELETED, note), actor=actor, now=now)


def _event_data(artifact: Artifact) -> dict[str, Any]:
    return {
        "artifactId": artifact.id,
        "name": artifact.name,
        "mediaType": artifact.media_type,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "runId": artifact.run_id,
    }


class OrphanBlob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A blob without an artifact record; the blob is deleted when this expires."""

    kind: ClassVar[str] = "loose-blob"
    product_id: ClassVar[str] = FLEET

    key: str
    """The key in the blob store."""
    expires_at: datetime
    rev: int = 1


class ArtifactLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A temporary secret link to one artifact; only its hash is stored."""

    kind: ClassVar[str] = "artifact-link"

    hash: str
    artifact_id: str
    product_id: str
    token_key: str | None
    """The token that created it: the link is valid only as long as that token has access."""
    created_by: str
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The hash of the secret that the reader presents."""
        return self.hash


LINK_TTL = timedelta(minutes=15)
LINK_TTL_MAX = timedelta(days=1)
