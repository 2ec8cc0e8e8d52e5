"""Artifacts: what a job leaves behind beside its change; the bytes are elsewhere, this points."""

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
"""So many a job has at most, over all of its runs: one page."""
NAME_CHARS_MAX = 300
DEFAULT_MEDIA_TYPE = "application/octet-stream"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,99}"  # noqa: S105 - RFC 6838's word for a name
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:; ?charset=[A-Za-z0-9._-]{{1,40}})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def artifact_name(text: str) -> str:
    """Accept a path below the worktree, with `/` between its parts, as it stands there."""
    if line(text, chars_max=NAME_CHARS_MAX) != text or _SURROGATE.search(text) or "\\" in text:
        raise ValueError("a name of text without backslashes, and without blanks at its ends")
    if not {"", ".", ".."}.isdisjoint(text.split("/")):
        raise ValueError("a relative path that never climbs, such as reports/coverage.html")
    return text


def media_type(text: str) -> str:
    """Accept what kind of bytes it is, as HTTP names it."""
    if not _MEDIA_TYPE.fullmatch(text):
        raise ValueError("a media type such as text/html; charset=utf-8")
    return text


def sha256(text: str) -> str:
    """Accept a hash."""
    if not _SHA256.fullmatch(text):
        raise ValueError("the SHA-256 of the bytes, as 64 lower-case hexadecimal digits")
    return text


class Purpose(StrEnum):
    """What an artifact is for."""

    FILE = "file"
    """A file that somebody wants to have."""
    DIFF = "diff"
    """What a run has changed: a `WorkDiff`, one a run."""


class ArtifactUpload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What somebody says of the bytes that follow."""

    name: str
    sha256: str
    media_type: str = DEFAULT_MEDIA_TYPE
    size: int | None = None
    """None where it is not said beforehand."""
    purpose: Purpose = Purpose.FILE

    def check(self, *, bytes_max: int) -> None:
        """Refuse what cannot be an artifact, before any of its bytes are read.

        Raises Invalid with all that is wrong, TooLarge.
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
        """How many bytes it may have, where other artifacts may have so many."""
        return min(allowed, DIFF_BYTES_MAX) if self.purpose is Purpose.DIFF else allowed

    def check_content(self, *, size: int, digest: str) -> None:
        """Refuse bytes that are not those that were spoken of.

        Raises Invalid.
        """
        faults = []
        if self.size not in (None, size):
            faults.append(Fault("size", f"said to be {self.size}, and {size} bytes came"))
        if self.sha256 != digest:
            faults.append(Fault("sha256", f"said to be {self.sha256}, and it is {digest}"))
        if faults:
            raise Invalid("the artifact", faults)


def _faults(field: str, check: Callable[[str], str], text: str) -> Iterator[Fault]:
    try:
        check(text)
    except ValueError as expected:
        yield Fault(field, f"found {text[:100]!r}; expected {expected}")


def require_size(size: int, *, bytes_max: int) -> None:
    """Refuse more bytes than an artifact may have.

    Raises TooLarge.
    """
    if size > bytes_max:
        raise TooLarge(f"an artifact has at most {bytes_max} bytes; compress it, or leave some out")


def require_artifact_quota(present: int) -> None:
    """Refuse one artifact more than a job may have.

    Raises TooLarge.
    """
    if present >= ARTIFACTS_MAX:
        raise TooLarge(
            f"a job has at most {ARTIFACTS_MAX} artifacts; delete some, or pack many into one"
        )


class Artifact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file that a run, or a person, has left with a job; it stays until it is deleted."""

    kind: ClassVar[str] = "artifact"
    expires_at: ClassVar[None] = None

    id: str
    job_id: str
    product_id: str
    run_id: str | None = None
    """None for one that a person has added."""
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
        """Artifacts are found by their id, which begins with the job's."""
        return self.id

    @property
    def blob(self) -> str:
        """Where the bytes are."""
        return blob_key(self.job_id, self.id)

    def matches(self, upload: ArtifactUpload, run_id: str | None) -> bool:
        """Whether this is what a run (None: a person) offers: sent again, it counts once."""
        mine = (self.run_id, self.purpose, self.name, self.sha256)
        return mine == (run_id, upload.purpose, upload.name, upload.sha256)

    def is_replaced_by(self, upload: ArtifactUpload, run_id: str | None) -> bool:
        """Whether it goes when a run has this: there is one diff a run, the newest."""
        diffs = self.purpose is Purpose.DIFF and upload.purpose is Purpose.DIFF
        return diffs and self.run_id == run_id and not self.matches(upload, run_id)


def artifact_id(job_id: str, unique: str) -> str:
    """Give the id of a job's artifact; those of one job sort as they were made."""
    return f"{job_id}.{unique}"


def blob_key(job_id: str, artifact_id_: str) -> str:
    """Give the place of an artifact's bytes among the blobs."""
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
    """Give the record of bytes that were taken and found to be what was said of them."""
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
    """Tell of an artifact that a job has now."""
    note = _event_data(artifact)
    kind = (
        event_types.DIFF_ADDED if artifact.purpose is Purpose.DIFF else event_types.ARTIFACT_ADDED
    )
    return transition(job, None, (kind, note), actor=artifact.created_by, now=now)


def delete_artifact(job: Job, artifact: Artifact, *, actor: str, now: datetime) -> JobChange:
    """Tell of an artifact that somebody has deleted."""
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
    """Bytes that no artifact refers to yet, or any more; once this has expired, they go."""

    kind: ClassVar[str] = "loose-blob"
    product_id: ClassVar[str] = FLEET

    key: str
    """Where the bytes are."""
    expires_at: datetime
    rev: int = 1


class ArtifactLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A secret that opens one artifact for a while, known by its hash alone."""

    kind: ClassVar[str] = "artifact-link"

    hash: str
    artifact_id: str
    product_id: str
    token_key: str | None
    """The token that it was made with: it opens nothing that this one does not."""
    created_by: str
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """Links are found by the hash of the secret that a reader presents."""
        return self.hash


LINK_TTL = timedelta(minutes=15)
LINK_TTL_MAX = timedelta(days=1)
