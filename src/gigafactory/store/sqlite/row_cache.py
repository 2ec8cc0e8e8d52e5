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
"""Longer specs are not cached, so that the cache stays at a few megabytes."""

K = TypeVar("K")
V = TypeVar("V")


class RowCache:
    """Jobs, specs, records and unique keys as they are stored.

    None stands for a record that does not exist, and for the owner of a free key. Only this process
    writes the file, and every stored write is applied here before its caller gets the verdict, so
    the cache returns the same as a query.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.specs: dict[str, JobSpec] = {}
        self.records: dict[tuple[str, str], Record | None] = {}
        self.holds: dict[str, str | None] = {}

    def put_job(self, job: Job) -> None:
        """Cache a job that was just read or written."""
        _put(self.jobs, job.id, job, JOBS_MAX)

    def put_record(self, kind: str, key: str, record: Record | None) -> None:
        """Cache a record that was just read or written."""
        _put(self.records, (kind, key), record, RECORDS_MAX)

    def apply(self, writes: tuple[Write, ...]) -> None:
        """Apply a group of writes that was stored."""
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
        """Cache the new job; a lease that it keeps has the expiry of the renewals since."""
        job, earlier = change.after, self.jobs.get(change.after.id)
        unchanged = set(_expiries(change.before)) & set(_expiries(job))
        if not unchanged:
            self.put_job(job)
        elif earlier is None or job.ending or len(unchanged) > 1:
            self.jobs.pop(job.id, None)
        else:
            assert job.lease is not None, "a kept lease that is not ending is the live one"
            live = earlier.lease
            assert live is not None, "the newest version has the lease that the change keeps"
            self.put_job(replace(job, lease=replace(job.lease, expires_at=live.expires_at)))

    def _put_spec(self, spec: JobSpec | None) -> None:
        """Cache the spec of a new job: with free seats, it is read in a moment."""
        if spec is not None and len(spec.body) + len(bytes(spec.manifest)) <= SPEC_BYTES_MAX:
            _put(self.specs, spec.job_id, spec, SPECS_MAX)

    def _apply_holds(self, change: JobChange) -> None:
        """Cache the owners of keys: every lease grant checks the seat keys of a factory."""
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
    """Return epoch and expiry of every lease, by the job document."""
    if job is None:
        return
    for lease in (*job.ending, job.lease):
        if lease is not None:
            yield lease.epoch, lease.expires_at


def _put(cache: dict[K, V], key: K, value: V, size_max: int) -> None:
    cache.pop(key, None)
    cache[key] = value
    if len(cache) > size_max:
        del cache[next(iter(cache))]
