"""The folder as a store: every change under one lock, by the domain's rules, written atomically."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, NameTaken, NotFound, Unavailable
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.job.lifecycle import name_key
from gigafactory.domain.job.run import Run
from gigafactory.domain.submission.submission import idempotency_hold
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.folder.queue.board import Board, column_of
from gigafactory.folder.queue.record import JobRecord, Records, file_of, write_record

WAITS_MAX_S = 60.0
LOOKS_EVERY_S = 0.005


class QueueClock(Protocol):
    """The time."""

    def now(self) -> datetime:
        """Return the time in UTC, to the millisecond."""
        ...


class QueueIds(Protocol):
    """A source of job ids."""

    def new(self, now: datetime) -> str:
        """Return a unique id; ids sort by creation time."""
        ...


class FolderQueue:
    """The jobs of one folder; each change locks it for a moment."""

    def __init__(self, board: Board, clock: QueueClock, ids: QueueIds) -> None:
        self.board = board
        self.clock = clock
        self.ids = ids
        self._records = Records(board)

    @contextmanager
    def open(self) -> Iterator["LockedQueue"]:
        """Yield all jobs, locked for changes.

        Raises Unavailable if another process does not release the folder.
        """
        with self._locked():
            yield LockedQueue(self, {record.job.id: record for record in self._records.all()})

    def look(self) -> dict[str, JobRecord]:
        """Return all jobs by id, without a lock."""
        return {record.job.id: record for record in self._records.all()}

    def _locked(self) -> FileLock:
        give_up_at = time.monotonic() + WAITS_MAX_S
        while (lock := FileLock.try_acquire(self.board.lock)) is None:
            if time.monotonic() > give_up_at:
                raise Unavailable(
                    f"another process has held {self.board.lock} for {WAITS_MAX_S:g} s"
                )
            time.sleep(LOOKS_EVERY_S)
        return lock


class LockedQueue:
    """The jobs of a folder while this process holds its lock."""

    def __init__(self, queue: FolderQueue, records: dict[str, JobRecord]) -> None:
        self.board = queue.board
        self.now = queue.clock.now()
        self.ids = queue.ids
        self.records = records

    def holder(self, key: str) -> Job | None:
        """Return the job that has a unique key: a name, an idempotency key, a lock."""
        return next((each.job for each in self.records.values() if key in _keys(each.job)), None)

    def lookup(self, reference: str) -> JobRecord:
        """Return the job with this id, name or file: unfinished before the newest ended.

        Raises NotFound.
        """
        if reference in self.records:
            return self.records[reference]
        plain = reference.rpartition("/")[2].removesuffix(".md")
        named = [k for k in self.records.values() if plain in {k.job.name, k.key}]
        if not named:
            raise NotFound("job", reference, f"`aq status` lists those of {self.board.root}")
        return max(named, key=lambda k: (k.key == plain, not k.job.finished, k.job.id))

    def commit(
        self, change: JobChange, *changed_runs: Run | None, new: JobRecord | None = None
    ) -> JobRecord:
        """Store an accepted step with its events, and move the file to where it then belongs.

        With what it means for runs of the job.

        Raises NameTaken or Conflict when a key of it belongs to another job.
        """
        job = change.after
        self._require_free(change)
        before = new or self.put(self.records[job.id])
        runs_by_id = {run.id: run for run in (*before.runs, *changed_runs) if run is not None}
        runs = tuple(sorted(runs_by_id.values(), key=lambda run: run.number))
        column_before = before.was if new else column_of(before.job)
        record = write_record(
            self.board, replace(before, job=job, runs=runs, was=column_before), change.events
        )
        self.records[job.id] = record
        return self.put(record)

    def put(self, record: JobRecord) -> JobRecord:
        """Move the file of a job to its column; a removed one stays removed."""
        path = file_of(self.board, record)
        if path is None:
            return record
        moved = self.board.move(path, column_of(record.job))
        if moved.name != record.file:
            record = write_record(self.board, replace(record, file=moved.name), ())
            self.records[record.job.id] = record
        return record

    def remark(self, record: JobRecord, stamp: tuple[int, int], *, edited: bool) -> None:
        """Update the stamp of a job's file, and whether it was edited too late."""
        marked = replace(record, stamp=stamp, edited=edited)
        self.records[record.job.id] = write_record(self.board, marked, ())

    def _require_free(self, change: JobChange) -> None:
        for key in change.take:
            owner = self.holder(key)
            if owner is None or owner.id == change.after.id:
                continue
            if key == name_key(change.after):
                raise NameTaken(
                    f"an unfinished job already has the name {change.after.name!r} ({owner.id});"
                    " choose another name, or cancel that job"
                )
            raise Conflict(f"{key} belongs to job {owner.id} ({owner.name})")


def _keys(job: Job) -> Iterator[str]:
    if not job.finished:
        yield name_key(job)
    if job.idempotency_key is not None and job.superseded_by is None:
        yield idempotency_hold(job.product_id, job.idempotency_key)
    for lease in leases_of(job):
        yield from lease.holds


def leases_of(job: Job) -> tuple[Lease, ...]:
    """Return the leases under which a run of the job may be active."""
    return (*job.ending, *((job.lease,) if job.lease is not None else ()))
