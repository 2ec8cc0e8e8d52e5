"""Translation between domain objects and table rows, shared by all databases.

job     id, product_id, name, stage, priority, repo, profile, engine, parent_id, rev, seq,
        words, doc
spec    job_id, manifest, body: one per job, never changed
event   position, job_id, seq, product_id, type, at, actor, stage, data
hold    key, job_id: the job that owns a unique key
lease   job_id, epoch, factory_id, live, expires_at: overrides the expiry in the job document
dep     dep_id, job_id: job_id waits for dep_id
record  kind, key, product_id, rev, expires_at, doc
seen    factory_id, at
tally   product_id, stage, jobs: the number of jobs in a stage
feed    position: one row, updated by every batch that has an event

Times are integer milliseconds since 1970. Documents are JSON text. Product `*` is the whole fleet.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.insights.exploration import Episode
from gigafactory.domain.insights.routing_rollout import RoutingRollout
from gigafactory.domain.insights.tally import Tally, TallyIncrement
from gigafactory.domain.job.artifact import Artifact, ArtifactLink, OrphanBlob
from gigafactory.domain.job.change import (
    JobChange,
    JobDeletion,
    Record,
    RecordChange,
    StaleRevision,
    Write,
)
from gigafactory.domain.job.job import Ask, Event, Job, JobSpec, Lease, Stage, Terms
from gigafactory.domain.job.run import Run
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.tenancy.access import Enrollment, LoginCode, SecretGuessing, Token
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.dispatch_mode import ShadowComparison
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.idempotency import IdempotencyRecord
from gigafactory.domain.tenancy.leader import Leader, LeaderHeartbeat
from gigafactory.domain.tenancy.notification import ChannelQuietPeriod, Notification
from gigafactory.domain.tenancy.product import Product, ProfileVersion
from gigafactory.domain.tracker.ticket_update import FeedCursor, TicketCursor
from gigafactory.domain.tracker.webhook_delivery import WebhookDelivery

AnyRecord = TypeVar("AnyRecord", bound=Record)

EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_WORD = re.compile(r"\w+")
_RECORDS: tuple[type[Record], ...] = (
    ArchivedJob,
    Artifact,
    ArtifactLink,
    Budget,
    Ceiling,
    ChannelQuietPeriod,
    Enrollment,
    Episode,
    Factory,
    FeedCursor,
    HaltSwitch,
    IdempotencyRecord,
    Leader,
    LeaderHeartbeat,
    LoginCode,
    Notification,
    OrphanBlob,
    Product,
    ProfileVersion,
    RoutingRollout,
    Run,
    SecretGuessing,
    ShadowComparison,
    Tally,
    TallyIncrement,
    TicketCursor,
    Token,
    WebhookDelivery,
)

KINDS: Mapping[str, type[Record]] = {of.kind: of for of in _RECORDS}
"""The type of every stored kind of record."""


class JobRow(NamedTuple):
    """The columns of a job: those that lists filter by, then the document."""

    id: str
    product_id: str
    name: str
    stage: str
    priority: str
    repo: str | None
    profile: str | None
    engine: str | None
    parent_id: str | None
    rev: int
    seq: int
    words: str
    doc: str


class SpecRow(NamedTuple):
    """The columns of a job's spec."""

    job_id: str
    manifest: str
    body: str


class EventRow(NamedTuple):
    """The columns of an event."""

    position: int
    job_id: str | None
    seq: int
    product_id: str
    type: str
    at: int
    actor: str
    stage: str | None
    data: str


class LeaseRow(NamedTuple):
    """The columns of a lease; `live` is false once the lease is revoked."""

    job_id: str
    epoch: int
    factory_id: str
    live: bool
    expires_at: int


class RecordRow(NamedTuple):
    """The columns of a record other than a job."""

    kind: str
    key: str
    product_id: str
    rev: int
    expires_at: int | None
    doc: str


class LeaseChanges(NamedTuple):
    """The effect of a job change on the lease table."""

    ended: tuple[int, ...]
    """Epochs whose rows are deleted."""
    written: tuple[LeaseRow, ...]
    """New leases, and leases whose expiry the change sets: write the whole row."""
    revoked: tuple[LeaseRow, ...]
    """Leases that are revoked but not over: write all columns except the expiry."""


class DepChanges(NamedTuple):
    """The effect of a job change on the dependency table."""

    removed: frozenset[str]
    added: frozenset[str]


def to_millis(at: datetime) -> int:
    """Convert a time to milliseconds since 1970."""
    return (at - EPOCH) // MILLISECOND


def from_millis(at: int) -> datetime:
    """Convert milliseconds since 1970 to a time."""
    return EPOCH + timedelta(milliseconds=at)


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words for the search."""
    return _WORD.findall(text.lower())


def search_words(job: Job) -> str:
    """Return the words that find a job in a search, separated by single blanks."""
    return " ".join(split_words(f"{job.name} {job.title}"))


def engine_of(job: Job) -> str | None:
    """Return the engine that a job is listed under: of its newest run, or the requested one."""
    return job.engine or job.ask.engine


def profile_of(job: Job) -> str | None:
    """Return the name of a job's profile without its version."""
    return job.profile and job.profile.partition("@")[0]


def leases_of(job: Job | None) -> tuple[Lease, ...]:
    """Return all leases of a job: the ending ones, then the live one."""
    ending = job.ending if job is not None else ()
    return (*ending, job.lease) if job is not None and job.lease else ending


class _AskDoc(Ask, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An `Ask` without fields that have their default."""


class _TermsDoc(Terms, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`Terms` without fields that have their default."""


class _JobDoc(Job, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A job without fields that have their default: half the bytes to write."""

    ask: _AskDoc
    terms: _TermsDoc


_encode = msgspec.json.Encoder().encode
_decode_job = msgspec.json.Decoder(Job).decode
_decode_data = msgspec.json.Decoder(dict[str, object]).decode
_decode_expiries = msgspec.json.Decoder(dict[int, int]).decode


def job_row(job: Job) -> JobRow:
    """Return the row of a job."""
    return JobRow(
        job.id,
        job.product_id,
        job.name,
        job.stage.value,
        job.priority.value,
        job.ask.repo,
        profile_of(job),
        engine_of(job),
        job.parent_id,
        job.rev,
        job.seq,
        search_words(job),
        job_doc(job),
    )


def job_doc(job: Job) -> str:
    """Encode a whole job as its document; fields with their default are omitted."""
    return _encode(msgspec.convert(job, _JobDoc, from_attributes=True)).decode()


def listing_changed(before: Job, after: Job) -> bool:
    """Return whether a change affects a listed column other than stage and engine."""
    return (
        before.ask.repo != after.ask.repo
        or before.priority is not after.priority
        or before.profile != after.profile
        or before.parent_id != after.parent_id
        or before.name != after.name
        or before.title != after.title
        or before.product_id != after.product_id
    )


def job_from_doc(doc: str | bytes, expiries: Mapping[int, int]) -> Job:
    """Decode a job, with the expiries that the lease table has for its epochs."""
    job = _decode_job(doc)
    if job.lease is None and not job.ending:
        return job
    return msgspec.structs.replace(
        job,
        lease=job.lease and _with_expiry(job.lease, expiries),
        ending=tuple(_with_expiry(lease, expiries) for lease in job.ending),
    )


def _with_expiry(lease: Lease, expiries: Mapping[int, int]) -> Lease:
    return msgspec.structs.replace(lease, expires_at=from_millis(expiries[lease.epoch]))


def parse_expiries(object_: str | bytes) -> Mapping[int, int]:
    """Parse a JSON object that maps the epochs of a job to expiries in milliseconds."""
    return _decode_expiries(object_)


def lease_row(job: Job, lease: Lease) -> LeaseRow:
    """Return the row of a lease."""
    until = to_millis(lease.expires_at)
    return LeaseRow(job.id, lease.epoch, lease.factory_id, lease is job.lease, until)


def lease_changes(change: JobChange) -> LeaseChanges:
    """Return the lease rows that a job change deletes and writes; untouched ones are omitted."""
    before, after = change.before, change.after
    if before and (before.lease, before.ending) == (after.lease, after.ending):
        return LeaseChanges((), (), ())
    old, now = ({lease.epoch: lease for lease in leases_of(job)} for job in (before, after))
    live = before and before.lease
    written: list[LeaseRow] = []
    revoked: list[LeaseRow] = []
    for epoch, lease in now.items():
        earlier = old.get(epoch)
        if earlier is None or earlier.expires_at != lease.expires_at:
            written.append(lease_row(after, lease))
        elif earlier is live and lease is not after.lease:
            revoked.append(lease_row(after, lease))
    return LeaseChanges(tuple(old.keys() - now.keys()), tuple(written), tuple(revoked))


def subject(write: JobChange | RecordChange | JobDeletion) -> str:
    """Return the name that a verdict gives to the object of a write."""
    if isinstance(write, JobChange):
        return write.after.id
    if isinstance(write, JobDeletion):
        return write.job.id
    return f"{write.record.kind}/{write.record.key}"


def find_duplicate(writes: Sequence[Write]) -> StaleRevision | None:
    """Return a conflict if a group of writes changes the same job or record twice."""
    names: set[str] = set()
    for write in writes:
        if isinstance(write, JobChange | RecordChange | JobDeletion):
            name = subject(write)
            if name in names:
                return StaleRevision(name)
            names.add(name)
    return None


def dep_changes(change: JobChange) -> DepChanges:
    """Return the dependencies that a job change removes and adds."""
    if (change.before.deps if change.before else ()) == change.after.deps:
        return DepChanges(frozenset(), frozenset())
    old = frozenset(change.before.deps if change.before else ())
    now = frozenset(change.after.deps)
    return DepChanges(old - now, now - old)


def spec_row(spec: JobSpec) -> SpecRow:
    """Return the row of a spec."""
    return SpecRow(spec.job_id, bytes(spec.manifest).decode(), spec.body)


def spec_from_row(row: SpecRow) -> JobSpec:
    """Return the spec of a row."""
    return JobSpec(row.job_id, msgspec.Raw(row.manifest.encode()), row.body)


def event_row(event: Event, position: int) -> EventRow:
    """Return the row of an event at a position of the feed."""
    return EventRow(
        position,
        event.job_id,
        event.seq,
        event.product_id,
        event.type,
        to_millis(event.at),
        event.actor,
        event.stage and event.stage.value,
        _encode(event.data).decode(),
    )


def event_from_row(row: EventRow) -> Event:
    """Return the event of a row."""
    return Event(
        type=row.type,
        at=from_millis(row.at),
        actor=row.actor,
        product_id=row.product_id,
        job_id=row.job_id,
        seq=row.seq,
        stage=Stage(row.stage) if row.stage else None,
        data=_decode_data(row.data),
        position=row.position,
    )


def record_row(record: Record) -> RecordRow:
    """Return the row of a record other than a job."""
    assert KINDS[record.kind] is type(record), f"{record.kind} is not listed in `_RECORDS`"
    until = None if record.expires_at is None else to_millis(record.expires_at)
    columns = (record.kind, record.key, record.product_id, record.rev, until)
    return RecordRow(*columns, _encode(record).decode())


def record_from_doc(of: type[AnyRecord], doc: str | bytes) -> AnyRecord:
    """Decode a record."""
    return msgspec.json.decode(doc, type=of)


def json_list(values: Collection[str | tuple[str, str]]) -> str:
    """Encode values as one JSON list, for a query parameter."""
    return _encode(list(values)).decode()


def after_prefix(prefix: str) -> str:
    """Return the upper bound, by code point, of all keys with a prefix."""
    return prefix + "\U0010ffff"
