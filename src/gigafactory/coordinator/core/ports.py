"""What the coordinator needs of the world, in its own words; the docstrings are the contract."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from gigafactory.domain.job.change import CommitResult, FeedEntry, Record, Write
from gigafactory.domain.job.job import Event, Job, JobSpec, Priority, Stage
from gigafactory.domain.tracker.ticket import Ticket, TicketStatus
from gigafactory.wire import limits

AnyRecord = TypeVar("AnyRecord", bound=Record)

PAGE_MAX = limits.PAGE_MAX
"""No list is longer than this."""


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs, in which order; a page goes on after the id `after`."""

    products: tuple[str, ...] | None = None
    """None for all."""
    stages: tuple[Stage, ...] = ()
    name: str | None = None
    repo: str | None = None
    profile: str | None = None
    """The profile's name, of any version."""
    engine: str | None = None
    factory_id: str | None = None
    """Jobs that this factory holds a lease on, ending ones included."""
    priority: Priority | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()
    """Children of any of these, which are few."""
    text: str | None = None
    """Words, each of which begins a word of the name or the title, whatever the case."""
    oldest_first: bool = False
    after: str | None = None
    limit: int = 50


class Store(Protocol):
    """Reads, and one write. Every read sees all that this store `Stored` before it began."""

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
        """One job as it is now, its leases with their newest expiry."""

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        """Those of these jobs that exist, by id."""

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        """One page of jobs, ordered by id (that is, by creation), newest first by default."""

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        """The resolved manifests and the bodies of those of these jobs that exist, by id."""

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        """A job's events with a `seq` above `after`, in order."""

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        """Events that concern no job, newest first, below a position; the fleet's included."""

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        """All events above a position, in commit order, none skipped but forgotten jobs'."""

    async def position(self) -> int:
        """The position of the newest event in the feed; 0 when there is none."""

    async def wait_for_change(self, after: int) -> None:
        """Wait until the feed is past `after`, or for a while: look at it either way."""

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        """Which jobs own these unique keys; a key without an owner is not in the answer."""

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        """All unique keys that begin so, with the jobs that own them."""

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        """Jobs with a lease, live or ending, that ran out by `now`, the longest gone first."""

    async def dependents(self, job_id: str) -> Sequence[Job]:
        """The unfinished jobs that name this one among their dependencies."""

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        """One record of a kind by its key."""

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        """Those of these records of a kind that exist, by key."""

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        """Records of a kind whose key begins so, in key order, after the key `after`."""

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        """Records of a kind whose `expires_at` has passed."""

    async def last_seen(self) -> Mapping[str, datetime]:
        """When each factory was last heard of, as far as it was written."""

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        """How many jobs stand in each stage."""


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What travels to a factory: an offer, or a command. Small: never the body of a job."""

    factory_id: str = msgspec.field(name="targetFactoryId")
    event: str
    """`offer` or `command`."""
    data: dict[str, Any]


class Dispatch(Protocol):
    """The way to the factories. What it loses or repeats costs time, never correctness."""

    def send(self, message: Message) -> None:
        """Send a message on its way, if this coordinator has a way to that factory."""

    def stream_count(self, factory_id: str) -> int:
        """How many streams a factory has open here."""

    def close_streams(self, factory_id: str) -> None:
        """End a factory's streams: its token was revoked, or it has gone."""

    def open_stream(self, factory_id: str) -> AbstractAsyncContextManager[AsyncIterator[Message]]:
        """The messages for one factory, until it goes away or is closed."""


class Clock(Protocol):
    """The time that decides: the coordinator's, or the database's."""

    def now(self) -> datetime:
        """This moment in UTC, to the millisecond, never going back."""


class Ids(Protocol):
    """Where new names come from."""

    def new(self, now: datetime) -> str:
        """An id nobody has, that sorts after those made at earlier moments."""

    def secret(self) -> str:
        """A secret nobody can guess."""


class Blobs(Protocol):
    """Bytes by name, for logs and artifacts."""

    async def put_new(self, key: str, data: bytes) -> bool:
        """Keep these bytes under a new key; False, and nothing changed, if the key is taken."""

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        """Keep bytes as they come under a key that nobody else has; then they survive a power cut.

        Nothing is there before the last piece has come. When the pieces raise, so does this, and
        nothing of them stays; after a crash, `delete` removes what was begun, unless the home
        does that by itself after a while.
        """

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        """The keys that begin so and come after one, in order, with the size of each."""

    def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """The bytes under a key from `start` on, in pieces.

        Raises NotFound.
        """

    async def delete(self, prefix: str) -> int:
        """Remove every key that begins so, also what was begun under one; how many there were."""


class Tracker(Protocol):
    """A ticket tracker. All methods raise TrackerUnavailable or TrackerRefused."""

    async def item(self, item_id: str) -> Ticket | None:
        """One item as it is now; None when there is none."""

    async def items_for_agents(self) -> Sequence[Ticket]:
        """What people have handed over to agents and is not closed, oldest first."""

    async def update(
        self, item: Ticket, status: TicketStatus | None, labels: Collection[str]
    ) -> None:
        """Give an item that was just read these labels, and this status (None: as it is).

        Doing it twice is the same as once.
        """

    async def comment(self, item_id: str, text: str, marker: str) -> bool:
        """Say something below an item, unless a comment with the marker is there; then False."""

    async def item_of_delivery(self, body: bytes) -> Ticket | None:
        """The item that a delivery (whose signature is good) is about, as it is now; None: none.

        Raises Malformed, Invalid for what is no delivery of this tracker.
        """


class TrackerBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The tracker of a product, or of all that have none of their own."""

    name: str
    """The product; `*` for all others."""
    tracker: Tracker
    secret: bytes | None = None
    """What its deliveries are signed with; None: there are none."""
    default_repo: str | None = None
    """The repo of items that name none."""
    sends_updates: bool = True
    """Whether anything can be told to it."""


async def all_records(store: Store, of: type[AnyRecord], *, prefix: str = "") -> list[AnyRecord]:
    """Every record of a kind whose key begins so, in key order."""
    found: list[AnyRecord] = []
    while page := await store.records(of, prefix=prefix, after=found[-1].key if found else ""):
        found += page
    return found
