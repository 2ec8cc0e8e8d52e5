"""What rules return and the store commits: changes, their guards, and the result of a commit."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import msgspec

from gigafactory.domain.job.job import Event, Job, JobSpec

FLEET = "*"
"""The `product_id` of records and events that belong to the whole fleet."""


class Record(Protocol):
    """A stored record other than a job: found by kind and key, replaced only at its `rev`."""

    kind: ClassVar[str]

    @property
    def key(self) -> str:
        """The key of this record, unique within its kind."""

    @property
    def rev(self) -> int:
        """The revision; 1 for a new record."""

    @property
    def product_id(self) -> str:
        """The product that owns it; `*` for the whole fleet."""

    @property
    def expires_at(self) -> datetime | None:
        """When it may be deleted; None for never."""


class RevisionGuard(msgspec.Struct, frozen=True):
    """Guard: the record (or job, for kind `job`) is still at this revision; 0: it is absent."""

    kind: str
    key: str
    rev: int


class LeaseExpiredGuard(msgspec.Struct, frozen=True):
    """Guard: the lease has expired by `at`, even if it was renewed since it was read."""

    job_id: str
    epoch: int
    at: datetime


Guard = RevisionGuard | LeaseExpiredGuard


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted change of one job: stored with its events, or not at all."""

    before: Job | None
    after: Job
    events: tuple[Event, ...] = ()
    spec: JobSpec | None = None
    take: tuple[str, ...] = ()
    """Unique keys that the job acquires: its name, its lock, a seat."""
    free: tuple[str, ...] = ()
    """Unique keys that the job releases; keys of other jobs are left alone."""
    guards: tuple[Guard, ...] = ()


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A write (`after`) or removal (None) of a record, from the revision that was read."""

    before: Record | None
    after: Record | None
    events: tuple[Event, ...] = ()
    guards: tuple[Guard, ...] = ()

    @property
    def record(self) -> Record:
        """The record that is written or removed."""
        record = self.after or self.before
        assert record is not None, "a change of nothing"
        return record


class Renewal(msgspec.Struct, frozen=True):
    """A lease lasts until `expires_at` if its epoch is still live; never shortened."""

    job_id: str
    epoch: int
    expires_at: datetime


class FactoriesSeen(msgspec.Struct, frozen=True):
    """When factories last sent a heartbeat: many in one write, without event or revision."""

    at: dict[str, datetime]


class LeaseExtension(msgspec.Struct, frozen=True):
    """Extends every lease by a time in which the coordinator could not serve renewals."""

    by: timedelta


class JobDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """The removal of a finished job with its spec and events, at the revision that was read.

    Refused while an unfinished job depends on it; other records of it need a `RecordChange` each.
    """

    job: Job
    free: tuple[str, ...] = ()
    """Unique keys that it may still own."""


Write = JobChange | RecordChange | Renewal | FactoriesSeen | LeaseExtension | JobDeletion


class Stored(msgspec.Struct, frozen=True):
    """The writes are durable; `position` is that of the last event (0 without events)."""

    position: int = 0


class StaleRevision(msgspec.Struct, frozen=True):
    """A record or guard changed since it was read; nothing is stored."""

    key: str


class KeyTaken(msgspec.Struct, frozen=True):
    """A unique key belongs to another job; nothing is stored."""

    key: str
    by: str


CommitResult = Stored | StaleRevision | KeyTaken


class FeedEntry(msgspec.Struct, frozen=True):
    """One event of the change feed, with its job in a state at least as new as the event."""

    event: Event
    job: Job | None


def events_of(writes: tuple[Write, ...]) -> Iterator[Event]:
    """Yield the events of a group of writes in the order of their feed positions."""
    for write in writes:
        if isinstance(write, JobChange | RecordChange):
            yield from write.events
