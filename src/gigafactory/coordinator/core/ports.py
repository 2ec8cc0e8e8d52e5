"""The coordinator's ports: store, dispatch, clock, ids, blobs and trackers.

The docstrings are the contract that every adapter is tested against.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from gigafactory.domain.job.change import CommitResult, FeedEntry, Record, Write
from gigafactory.domain.job.job import Event, Job, JobSpec, Priority, Stage
from gigafactory.domain.tracker.ticket import Ticket, TicketStatus
from gigafactory.wire import limits
from gigafactory.wire.fleet import Command
from gigafactory.wire.workers import OfferView, ShadowOfferView

AnyRecord = TypeVar("AnyRecord", bound=Record)

PAGE_MAX = limits.PAGE_MAX
"""The most entries that any list returns."""


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list, in which order; the next page starts after the id `after`."""

    products: tuple[str, ...] | None = None
    """None: all products."""
    stages: tuple[Stage, ...] = ()
    name: str | None = None
    repo: str | None = None
    profile: str | None = None
    """The name of the profile, whatever the version."""
    engine: str | None = None
    factory_id: str | None = None
    """Jobs leased by this factory, including leases that are ending."""
    priority: Priority | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()
    """Children of any of these few composites."""
    text: str | None = None
    """Words, each a prefix of some word of the name or title; case is ignored."""
    oldest_first: bool = False
    after: str | None = None
    limit: int = 50


class Store(Protocol):
    """All persistent state: many reads, one write.

    Every read sees everything that `commit` reported as `Stored` before the read began.
    """

    @property
    def rollbacks(self) -> int:
        """How often the store was found to have lost stored history since it was opened."""

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all of these writes with their events, or none; `Stored` survives a power cut.

        Every guard must hold, and every `JobChange` and `RecordChange` must find its `before` at
        the revision (for jobs also the event number) that was read. Unique keys are released first,
        then acquired. New events get the next positions of the feed, in the order given.
        A `Renewal` only ever lengthens a lease; it is `StaleRevision` if the lease is not live at
        that epoch. A `JobChange` that keeps a lease leaves its expiry alone unless `after` has
        another one than `before`. A `JobDeletion` is `StaleRevision` while an unfinished job waits
        for its job; the feed skips deleted jobs. A group with two changes of one job or record is
        `StaleRevision`: the second was not decided from the result of the first.
        Raises Unavailable when it is unknown whether the writes were stored.
        """

    async def job(self, job_id: str) -> Job | None:
        """Return a job in its current version, with the newest expiry of its leases."""

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        """Return those of these jobs that exist, by id."""

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        """Return one page of jobs in the order of their creation, newest first by default."""

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        """Return the resolved manifests and bodies of those of these jobs that exist, by id."""

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        """Return a job's events with a `seq` above `after`, in order."""

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        """Return events without a job, newest first, below position `before`.

        `products` whose events these are, `*` for those of the whole fleet; None for all.
        """

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        """Return all events above a position in commit order, without those of deleted jobs."""

    async def position(self) -> int:
        """Return the position of the newest event in the feed; 0 if there is none."""

    async def wait_for_change(self, after: int) -> None:
        """Wait until the feed is past `after`, or for a few seconds; read it either way."""

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the job that owns each of these unique keys; free keys are left out."""

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        """Return all owned unique keys with this prefix, with the jobs that own them."""

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        """Return jobs with a live or ending lease that expired by `now`, earliest expiry first."""

    async def dependents(self, job_id: str) -> Sequence[Job]:
        """Return the unfinished jobs that depend on this one."""

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        """Return one record of a kind by its key, or None."""

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        """Return those of these records of a kind that exist, by key."""

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        """Return records of a kind whose key has this prefix, in key order, after `after`."""

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        """Return records of a kind whose `expires_at` has passed."""

    async def last_seen(self) -> Mapping[str, datetime]:
        """Return when each factory was last seen, as far as that has been written."""

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        """Return the number of jobs in each stage."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """An offer or a command on its way to a factory; small, never a job's body."""

    factory_id: str
    data: OfferView | ShadowOfferView | Command


class Dispatch(Protocol):
    """Message delivery to factories; a lost or repeated message costs time, never correctness."""

    def send(self, message: Message) -> None:
        """Send a message to the factory's streams that are open at this coordinator, if any."""

    def stream_count(self, factory_id: str) -> int:
        """Return how many streams the factory has open here."""

    def close_streams(self, factory_id: str) -> None:
        """Close a factory's streams, because its token was revoked or it was deregistered."""

    def open_stream(self, factory_id: str) -> AbstractAsyncContextManager[AsyncIterator[Message]]:
        """Open a stream of messages for one factory; it ends with the block, or when closed."""


class Clock(Protocol):
    """The authoritative time: the coordinator's own, or the database's."""

    def now(self) -> datetime:
        """Return the current time in UTC, in whole milliseconds; it never goes back."""


class Ids(Protocol):
    """The source of new ids and secrets."""

    def new(self, now: datetime) -> str:
        """Return a unique id that sorts after all ids of earlier moments."""

    def secret(self) -> str:
        """Return an unguessable secret."""


class Blobs(Protocol):
    """Byte storage by key, for logs and artifacts."""

    async def put_new(self, key: str, data: bytes) -> bool:
        """Store bytes under a new key; return False and change nothing if the key exists.

        When it returns True, the bytes survive a power cut.
        """

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """Store a stream of bytes under an unused key; on return it survives a power cut.

        The key appears only after the last piece. If `pieces` raises, the exception passes through
        and nothing is stored. After a crash, `delete` removes an unfinished upload, unless the
        backend expires it by itself.
        """

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        """Return the keys with this prefix above the key `after`, in order, with their sizes."""

    def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """Return the bytes under a key from `start` on, in pieces.

        Raises NotFound.
        """

    async def delete(self, prefix: str) -> int:
        """Delete every key with this prefix, and unfinished uploads; return how many there were."""


class Tracker(Protocol):
    """A ticket tracker. All methods raise TrackerUnavailable or TrackerRefused."""

    async def item(self, item_id: str) -> Ticket | None:
        """Return the current version of an item, or None."""

    async def items_for_agents(self) -> Sequence[Ticket]:
        """Return the open items that people have assigned to agents, oldest first."""

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        """Set the labels and, unless None, the status of an item that was just read.

        The call is idempotent.
        """

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        """Add a comment; return False and add nothing if one with the marker exists."""

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        """Return the current version of the item that a verified webhook delivery is about.

        None if it is about no item. Raises Malformed or Invalid for any other body.
        """


class TrackerBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A tracker, bound to one product or to all products without one of their own."""

    name: str
    """The product, or `*` for all others."""
    tracker: Tracker
    secret: bytes | None = None
    """The secret that webhook deliveries are signed with; None: there are no webhooks."""
    default_repo: str | None = None
    """The repo of items that name no repo."""
    sends_updates: bool = True
    """Whether tickets get status updates and comments."""


async def all_records(store: Store, of: type[AnyRecord], *, prefix: str = "") -> list[AnyRecord]:
    """Return every record of a kind whose key has this prefix, in key order."""
    records: list[AnyRecord] = []
    while page := await store.records(of, prefix=prefix, after=records[-1].key if records else ""):
        records += page
    return records
