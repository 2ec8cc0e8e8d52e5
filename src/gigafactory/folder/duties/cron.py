"""Cron for a folder: a template submits a copy at each tick, never two at once."""

import msgspec
import structlog
from msgspec.structs import replace

from gigafactory.domain.job.job import Job, JobSpec, Stage
from gigafactory.domain.manifest.encoder import format_job_file
from gigafactory.domain.manifest.job_file import SNAPSHOT_ONLY, parse_snapshot
from gigafactory.domain.submission.schedule import copy_of, tick
from gigafactory.domain.submission.submission import idempotency_hold
from gigafactory.folder.queue.board import SUFFIX
from gigafactory.folder.queue.record import JobRecord, digest_of, stamp_of
from gigafactory.folder.queue.store import LockedQueue
from gigafactory.system.atomic_file import write_atomically

log = structlog.get_logger()


def run_due_schedules(locked: LockedQueue) -> None:
    """Submit copies for all templates that are due."""
    for record in list(locked.records.values()):
        if _is_due(locked, record.job):
            _tick(locked, record)


def _is_due(locked: LockedQueue, job: Job) -> bool:
    template = job.stage is Stage.BLOCKED and job.terms.schedule is not None
    return template and job.not_before is not None and job.not_before <= locked.now


def _tick(locked: LockedQueue, record: JobRecord) -> None:
    job = record.job
    previous = locked.records.get(job.copy_id or "")
    # A process that died between the two commits has already made the copy.
    made = locked.holder(
        idempotency_hold(job.product_id, copy_of(job, "", locked.now).idempotency_key or "")
    )
    ticked, *copied = tick(
        job,
        JobSpec(job.id, record.manifest, record.body),
        previous.job if previous else None,
        [locked.records[dep].job for dep in job.deps if dep in locked.records],
        copy_id=made.id if made else locked.ids.new(locked.now),
        now=locked.now,
    )
    for change in copied if made is None else ():
        locked.commit(change, new=_file(locked, record, change.after))
    locked.commit(ticked)
    log.info("ticked", job=job.name, copies=len(copied))


def _file(locked: LockedQueue, template: JobRecord, copy: Job) -> JobRecord:
    """Write the copy as a file on the board: without the schedule, and with a name."""
    manifest = parse_snapshot(msgspec.json.decode(template.manifest))
    copied = replace(
        manifest,
        **dict.fromkeys(SNAPSHOT_ONLY),
        name=copy.name,
        schedule=None,
        not_before=None,
        delay=None,
        idempotency_key=copy.idempotency_key,
    )
    key = locked.board.free_stem(copy.name)
    data = format_job_file(copied, template.body).encode()
    path = locked.board.column("inbox") / f"{key}{SUFFIX}"
    write_atomically(path, data, fsync=True)
    return JobRecord(
        key=key,
        file=path.name,
        was="inbox",
        stamp=stamp_of(path),
        digest=digest_of(data),
        job=copy,
        manifest=template.manifest,
        body=template.body,
    )
