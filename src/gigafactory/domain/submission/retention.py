"""Retention: when a finished job may go, and what is left of one that lies in the archive."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import JobDeletion
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import name_key
from gigafactory.domain.submission.submission import idempotency_hold


def is_due(job: Job, kept_for: timedelta, *, now: datetime) -> bool:
    """Whether a job has been finished, and touched by nobody, for so long."""
    busy = job.lease is not None or bool(job.ending)
    return job.finished and not busy and job.updated_at + kept_for <= now


def delete_job(job: Job) -> JobDeletion:
    """Let a finished job go, with the keys that it may still own."""
    key = job.idempotency_key
    keys = (idempotency_hold(job.product_id, key),) if key is not None else ()
    return JobDeletion(job=job, free=(name_key(job), *keys))


def archive_key(job_id: str) -> str:
    """Give the place of a job's one file among the blobs."""
    return f"archive/{job_id}/job.jsonl.gz"


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the store still knows of a job that lies in the archive, and where that is."""

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
    """Of the compressed file."""
    sha256: str
    rev: int = 1

    @property
    def key(self) -> str:
        """Archived jobs are found by their id."""
        return self.job_id

    @property
    def blob(self) -> str:
        """Where the file is."""
        return archive_key(self.job_id)


def archive_job(job: Job, *, size: int, sha256: str, now: datetime) -> ArchivedJob:
    """Give the record of a job whose file is written."""
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
