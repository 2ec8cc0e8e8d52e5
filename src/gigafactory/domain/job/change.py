"""What a rule answers with: changes, the guards that they stand under, and the store's verdict."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar, Protocol

import msgspec

from gigafactory.domain.job.job import Event, Job, JobSpec

FLEET = "*"
"""The `product_id` of records and events that belong to the whole fleet."""


class Record(Protocol):
    """Anything beside jobs that is kept: found by kind and key, replaced only at its `rev`."""

    kind: ClassVar[str]

    @property
    def key(self) -> str:
        """The name of this record among those of its kind."""

    @property
    def rev(self) -> int:
        """How often it was written; 1 for a new one."""

    @property
    def product_id(self) -> str:
        """The product that it belongs to; `*` for the whole fleet."""

    @property
    def expires_at(self) -> datetime | None:
        """When it may be forgotten; None for never."""


class RevisionGuard(msgspec.Struct, frozen=True):
    """Guard: the record (or job, for kind `job`) is still at this revision; 0: there is none."""

    kind: str
    key: str
    rev: int


class LeaseExpiredGuard(msgspec.Struct, frozen=True):
    """Guard: this lease has run out by `at`, whatever was read before."""

    job_id: str
    epoch: int
    at: datetime


Guard = RevisionGuard | LeaseExpiredGuard


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted step of one job: stored whole, with its events, or not at all."""

    before: Job | None
    after: Job
    events: tuple[Event, ...] = ()
    spec: JobSpec | None = None
    take: tuple[str, ...] = ()
    """Unique keys that become the job's own: its name, its lock, a seat."""
    free: tuple[str, ...] = ()
    """Keys that it gives up; a key that it does not own is left alone."""
    guards: tuple[Guard, ...] = ()


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    """A record other than a job is written (`after`) or removed (None), from the revision read."""

    before: Record | None
    after: Record | None
    events: tuple[Event, ...] = ()
    guards: tuple[Guard, ...] = ()

    @property
    def record(self) -> Record:
        """The record that this is about."""
        record = self.after or self.before
        assert record is not None, "a change of nothing"
        return record


class Renewal(msgspec.Struct, frozen=True):
    """A lease lasts until `expires_at`, if it is still the one of this epoch; never shortened."""

    job_id: str
    epoch: int
    expires_at: datetime


class FactoriesSeen(msgspec.Struct, frozen=True):
    """When factories were last heard of: many in one write, no event, no revision."""

    at: dict[str, datetime]


class LeaseExtension(msgspec.Struct, frozen=True):
    """Every lease lasts longer by the time in which renewals could not be served."""

    by: timedelta


class JobDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job goes, with its spec and its events, from the revision that was read.

    Not while an unfinished job waits for it; what else is kept of it goes by a `Saved` each.
    """

    job: Job
    free: tuple[str, ...] = ()
    """Keys that it may still own."""


Write = JobChange | RecordChange | Renewal | FactoriesSeen | LeaseExtension | JobDeletion


class Stored(msgspec.Struct, frozen=True):
    """It is kept, durably; `position` is that of its last event (0 when it has none)."""

    position: int = 0


class StaleRevision(msgspec.Struct, frozen=True):
    """Lost the race: what was read has changed since. Nothing is stored."""

    key: str


class KeyTaken(msgspec.Struct, frozen=True):
    """A unique key belongs to another job. Nothing is stored."""

    key: str
    by: str


CommitResult = Stored | StaleRevision | KeyTaken


class FeedEntry(msgspec.Struct, frozen=True):
    """One event of the change feed, with the job as it is now, or at least as new as the event."""

    event: Event
    job: Job | None


def events_of(writes: tuple[Write, ...]) -> Iterator[Event]:
    """All events of a group of writes, in the order in which they get their positions."""
    for write in writes:
        if isinstance(write, JobChange | RecordChange):
            yield from write.events
