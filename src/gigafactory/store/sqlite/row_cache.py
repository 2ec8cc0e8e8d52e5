"""A cache of recently used rows; correct because one process owns the file."""

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from gigafactory.domain.job.change import (
    JobChange,
    JobDeletion,
    LeaseExtension,
    Record,
    RecordChange,
    Renewal,
    Write,
)
from gigafactory.domain.job.job import Job, JobSpec

JOBS_MAX = 5_000
RECORDS_MAX = 10_000
HOLDS_MAX = 20_000
SPECS_MAX = 1_000
SPEC_BYTES_MAX = 4_096
"""Longer bodies are read when they are asked for: so all that is kept has a few megabytes."""

K = TypeVar("K")
V = TypeVar("V")


class RowCache:
    """Jobs, specs, records and unique keys as they are stored.

    A record that is known not to be there is None, and so is the owner of a key that is free.

    Only this process writes the file, and every stored write passes through here before its caller
    hears of it, so that what is found here is what a query would find.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.specs: dict[str, JobSpec] = {}
        self.records: dict[tuple[str, str], Record | None] = {}
        self.holds: dict[str, str | None] = {}

    def put_job(self, job: Job) -> None:
        """Know a job as it was just read, or written."""
        _put(self.jobs, job.id, job, JOBS_MAX)

    def put_record(self, kind: str, key: str, record: Record | None) -> None:
        """Know a record as it was just read, or written."""
        _put(self.records, (kind, key), record, RECORDS_MAX)

    def apply(self, writes: tuple[Write, ...]) -> None:
        """Follow a group of writes that was stored."""
        for write in writes:
            match write:
                case JobChange():
                    self._apply_job(write)
                    self._put_spec(write.spec)
                    self._apply_holds(write)
                case RecordChange():
                    self.put_record(write.record.kind, write.record.key, write.after)
                case Renewal():
                    self._renew(write)
                case LeaseExtension():
                    self.jobs.clear()
                case JobDeletion():
                    self.jobs.pop(write.job.id, None)
                    self.specs.pop(write.job.id, None)
                    for key in write.free:
                        self.holds.pop(key, None)
                case _:
                    pass

    def _apply_job(self, change: JobChange) -> None:
        """A lease that a change keeps has the expiry of its renewals, not the one read."""
        job, known = change.after, self.jobs.get(change.after.id)
        kept = set(_expiries(change.before)) & set(_expiries(job))
        if not kept:
            self.put_job(job)
        elif known is None or job.ending or len(kept) > 1:
            self.jobs.pop(job.id, None)
        else:
            assert job.lease is not None, "a kept lease that is not ending is the live one"
            live = known.lease
            assert live is not None, "the newest version has the lease that the change keeps"
            self.put_job(replace(job, lease=replace(job.lease, expires_at=live.expires_at)))

    def _put_spec(self, spec: JobSpec | None) -> None:
        """What a new job asks for: on a fleet with free seats it is wanted in a moment."""
        if spec is not None and len(spec.body) + len(bytes(spec.manifest)) <= SPEC_BYTES_MAX:
            _put(self.specs, spec.job_id, spec, SPECS_MAX)

    def _apply_holds(self, change: JobChange) -> None:
        """The seats of a factory change hands all day long, and every grant asks who has them."""
        for key in change.free:
            if self.holds.get(key) == change.after.id:
                _put(self.holds, key, None, HOLDS_MAX)
        for key in change.take:
            _put(self.holds, key, change.after.id, HOLDS_MAX)

    def _renew(self, renewal: Renewal) -> None:
        job = self.jobs.get(renewal.job_id)
        if job is None or job.lease is None:
            return
        until = max(job.lease.expires_at, renewal.expires_at)
        self.jobs[job.id] = replace(job, lease=replace(job.lease, expires_at=until))


def _expiries(job: Job | None) -> Iterator[tuple[int, object]]:
    """Every lease of a job by epoch, with the expiry that the job's own document names."""
    if job is None:
        return
    for lease in (*job.ending, job.lease):
        if lease is not None:
            yield lease.epoch, lease.expires_at


def _put(shelf: dict[K, V], key: K, value: V, most: int) -> None:
    shelf.pop(key, None)
    shelf[key] = value
    if len(shelf) > most:
        del shelf[next(iter(shelf))]
