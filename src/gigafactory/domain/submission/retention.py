"""Retention: when finished jobs are removed, and the record of an archived job."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import JobDeletion
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import name_key
from gigafactory.domain.submission.submission import idempotency_hold


def is_due(job: Job, kept_for: timedelta, *, now: datetime) -> bool:
    """Return whether a job has been finished and unchanged for the retention time."""
    busy = job.lease is not None or bool(job.ending)
    return job.finished and not busy and job.updated_at + kept_for <= now


def delete_job(job: Job) -> JobDeletion:
    """Return the deletion of a finished job, with the unique keys that it may still own."""
    key = job.idempotency_key
    keys = (idempotency_hold(job.product_id, key),) if key is not None else ()
    return JobDeletion(job=job, free=(name_key(job), *keys))


def archive_key(job_id: str) -> str:
    """Return the blob key of a job's archive file."""
    return f"archive/{job_id}/job.jsonl.gz"


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record of an archived job."""

    kind: ClassVar[str] = "archived"
    expires_at: ClassVar[None] = None

    job_id: str
    product_id: str
    name: str
    title: str
    stage: Stage
    created_at: datetime
    finished_at: datetime
    archived_at: datetime
    size: int
    """Bytes of the compressed file."""
    sha256: str
    rev: int = 1

    @property
    def key(self) -> str:
        """The id of the job."""
        return self.job_id

    @property
    def blob(self) -> str:
        """The blob key of the archive file."""
        return archive_key(self.job_id)


def archive_job(job: Job, *, size: int, sha256: str, now: datetime) -> ArchivedJob:
    """Return the record of a job whose archive file is written."""
    return ArchivedJob(
        job_id=job.id,
        product_id=job.product_id,
        name=job.name,
        title=job.title,
        stage=job.stage,
        created_at=job.created_at,
        finished_at=job.updated_at,
        archived_at=now,
        size=size,
        sha256=sha256,
    )
