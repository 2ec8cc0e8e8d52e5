"""The calls on artifacts: the files that a job has left behind."""

import msgspec

from gigafactory.client.transport.call import Call, Source, path
from gigafactory.domain.job.diff import WorkDiff
from gigafactory.wire.files import ArchiveView, ArtifactsView, ArtifactView, LinkView


def archived_jobs(*, limit: int = 50, cursor: str | None = None) -> Call[ArchiveView]:
    """One page of archived jobs, oldest first."""
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path=path("archive"), answer=ArchiveView, query=query)


def archived_job(job_id: str) -> Call[bytes]:
    """The compressed file of an archived job; a large one is best taken piece by piece."""
    return Call(method="GET", path=path("archive", job_id), answer=bytes)


def of_job(job: str) -> Call[ArtifactsView]:
    """The artifacts of a job, oldest first."""
    return Call(method="GET", path=path("jobs", job, "artifacts"), answer=ArtifactsView)


def add(
    job: str,
    file: Source,
    *,
    name: str,
    media_type: str,
    epoch: int | None = None,
    purpose: str | None = None,
) -> Call[ArtifactView]:
    """Add a file to a job: as a worker under its lease, or without an epoch as a person."""
    return Call(
        method="POST",
        path=path("jobs", job, "artifacts"),
        answer=ArtifactView,
        query={
            "name": name,
            "sha256": file.sha256,
            "mediaType": media_type,
            "size": file.size,
            "leaseEpoch": epoch,
            "purpose": purpose,
        },
        file=file,
        content_type="application/octet-stream",
    )


def diff(job: str) -> Call[WorkDiff]:
    """What the newest run of a job has changed."""
    return Call(method="GET", path=path("jobs", job, "diff"), answer=WorkDiff)


def content(artifact: str) -> Call[bytes]:
    """The bytes of an artifact; those of a large one are best taken piece by piece."""
    return Call(method="GET", path=path("artifacts", artifact), answer=bytes)


def delete(artifact: str) -> Call[None]:
    """Delete an artifact."""
    return Call(method="DELETE", path=path("artifacts", artifact), answer=type(None))


def link(artifact: str, *, lasts_s: float | None = None) -> Call[LinkView]:
    """A link by which an artifact is read without a token, for a while."""
    asked = {} if lasts_s is None else {"expiresIn": lasts_s}
    return Call(
        method="POST",
        path=path("artifacts", artifact, "links"),
        answer=LinkView,
        body=msgspec.json.encode(asked),
        repeatable=False,
    )
