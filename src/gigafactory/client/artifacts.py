"""Calls on artifacts and archived jobs."""

import msgspec

from gigafactory.client.transport.call import ApiCall, UploadSource, path
from gigafactory.domain.job.artifact import Purpose
from gigafactory.domain.job.diff import WorkDiff
from gigafactory.wire.files import (
    ArchiveQuery,
    ArchiveView,
    ArtifactsView,
    ArtifactUploadQuery,
    ArtifactView,
    LinkDoc,
    LinkView,
)


def archived_jobs(*, limit: int = 50, cursor: str | None = None) -> ApiCall[ArchiveView]:
    """Return one page of archived jobs, oldest first."""
    query = ArchiveQuery(limit=limit, cursor=cursor)
    return ApiCall(method="GET", path=path("archive"), response_type=ArchiveView, query=query)


def archived_job(job_id: str) -> ApiCall[bytes]:
    """Download the compressed file of an archived job; stream a large one."""
    return ApiCall(method="GET", path=path("archive", job_id), response_type=bytes)


def of_job(job: str) -> ApiCall[ArtifactsView]:
    """List the artifacts of a job, oldest first."""
    return ApiCall(method="GET", path=path("jobs", job, "artifacts"), response_type=ArtifactsView)


def add(
    job: str,
    file: UploadSource,
    *,
    name: str,
    media_type: str,
    epoch: int | None = None,
    purpose: Purpose = Purpose.FILE,
) -> ApiCall[ArtifactView]:
    """Add a file to a job: as a worker with the lease epoch, or as a person without."""
    return ApiCall(
        method="POST",
        path=path("jobs", job, "artifacts"),
        response_type=ArtifactView,
        query=ArtifactUploadQuery(
            name=name,
            sha256=file.sha256,
            media_type=media_type,
            size=file.size,
            lease_epoch=epoch,
            purpose=purpose,
        ),
        file=file,
        content_type="application/octet-stream",
    )


def diff(job: str) -> ApiCall[WorkDiff]:
    """Return the diff of a job's newest run."""
    return ApiCall(method="GET", path=path("jobs", job, "diff"), response_type=WorkDiff)


def content(artifact: str) -> ApiCall[bytes]:
    """Download an artifact; stream a large one."""
    return ApiCall(method="GET", path=path("artifacts", artifact), response_type=bytes)


def delete(artifact: str) -> ApiCall[None]:
    """Delete an artifact."""
    return ApiCall(method="DELETE", path=path("artifacts", artifact), response_type=type(None))


def link(artifact: str, *, lasts_s: float | None = None) -> ApiCall[LinkView]:
    """Create a temporary link that reads an artifact without a token."""
    doc = LinkDoc() if lasts_s is None else LinkDoc(expires_in=lasts_s)
    return ApiCall(
        method="POST",
        path=path("artifacts", artifact, "links"),
        response_type=LinkView,
        body=msgspec.json.encode(doc),
        repeatable=False,
    )
