"""The calls on artifacts: the files that a job has left behind."""

import msgspec

from gigafactory.client.transport.call import ApiCall, UploadSource, path
from gigafactory.domain.job.diff import WorkDiff
from gigafactory.wire.files import ArchiveView, ArtifactsView, ArtifactView, LinkView


def archived_jobs(*, limit: int = 50, cursor: str | None = None) -> ApiCall[ArchiveView]:
    """One page of archived jobs, oldest first."""
    query = {"limit": limit, "cursor": cursor}
    return ApiCall(method="GET", path=path("archive"), response_type=ArchiveView, query=query)


def archived_job(job_id: str) -> ApiCall[bytes]:
    """The compressed file of an archived job; a large one is best taken piece by piece."""
    return ApiCall(method="GET", path=path("archive", job_id), response_type=bytes)


def of_job(job: str) -> ApiCall[ArtifactsView]:
    """The artifacts of a job, oldest first."""
    return ApiCall(method="GET", path=path("jobs", job, "artifacts"), response_type=ArtifactsView)


def add(
    job: str,
    file: UploadSource,
    *,
    name: str,
    media_type: str,
    epoch: int | None = None,
    purpose: str | None = None,
) -> ApiCall[ArtifactView]:
    """Add a file to a job: as a worker under its lease, or without an epoch as a person."""
    return ApiCall(
        method="POST",
        path=path("jobs", job, "artifacts"),
        response_type=ArtifactView,
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


def diff(job: str) -> ApiCall[WorkDiff]:
    """What the newest run of a job has changed."""
    return ApiCall(method="GET", path=path("jobs", job, "diff"), response_type=WorkDiff)


def content(artifact: str) -> ApiCall[bytes]:
    """The bytes of an artifact; those of a large one are best taken piece by piece."""
    return ApiCall(method="GET", path=path("artifacts", artifact), response_type=bytes)


def delete(artifact: str) -> ApiCall[None]:
    """Delete an artifact."""
    return ApiCall(method="DELETE", path=path("artifacts", artifact), response_type=type(None))


def link(artifact: str, *, lasts_s: float | None = None) -> ApiCall[LinkView]:
    """A link by which an artifact is read without a token, for a while."""
    asked = {} if lasts_s is None else {"expiresIn": lasts_s}
    return ApiCall(
        method="POST",
        path=path("artifacts", artifact, "links"),
        response_type=LinkView,
        body=msgspec.json.encode(asked),
        repeatable=False,
    )
