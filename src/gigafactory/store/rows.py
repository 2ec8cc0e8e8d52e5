"""The only translation between records and rows, shared by every database.

job     id, product_id, name, stage, priority, repo, profile, engine, parent_id, rev, seq,
        words, doc
spec    job_id, manifest, body: once a job, never changed
event   position, job_id, seq, product_id, type, at, actor, stage, data
hold    key, job_id: who owns a unique key
lease   job_id, epoch, factory_id, live, expires_at: the authority on expiry, not the document
dep     dep_id, job_id: the second waits for the first
record  kind, key, product_id, rev, expires_at, doc
seen    factory_id, at
tally   product_id, stage, jobs: how many stand there
feed    position: one row, taken in every batch that has an event

Times are integer milliseconds since 1970, documents are JSON text, `*` is the fleet's product.
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
"""Every kind of record that is kept, with its type."""


class JobRow(NamedTuple):
    """A job in the order of its columns; what is asked for in lists stands beside the document."""

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
    """What was asked for, in the order of its columns."""

    job_id: str
    manifest: str
    body: str


class EventRow(NamedTuple):
    """An event in the order of its columns."""

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
    """A lease in the order of its columns; `live` is false once it was taken away."""

    job_id: str
    epoch: int
    factory_id: str
    live: bool
    expires_at: int


class RecordRow(NamedTuple):
    """A record other than a job, in the order of its columns."""

    kind: str
    key: str
    product_id: str
    rev: int
    expires_at: int | None
    doc: str


class LeaseSteps(NamedTuple):
    """What a change does to the leases of its job."""

    ended: tuple[int, ...]
    """Epochs whose rows go."""
    written: tuple[LeaseRow, ...]
    """New ones, and those whose expiry the change itself moves: the whole row counts."""
    kept: tuple[LeaseRow, ...]
    """Those that are taken away and last on: all but the expiry counts."""


class DepSteps(NamedTuple):
    """What a change does to the dependencies of its job."""

    gone: frozenset[str]
    new: frozenset[str]


def millis(at: datetime) -> int:
    """A moment as the databases keep it."""
    return (at - EPOCH) // MILLISECOND


def moment(at: int) -> datetime:
    """The moment that a database kept."""
    return EPOCH + timedelta(milliseconds=at)


def words(text: str) -> list[str]:
    """The words of a text as the search sees them."""
    return re.findall(r"\w+", text.lower())


def words_of(job: Job) -> str:
    """The words by which a job is found, one blank between two."""
    return " ".join(words(f"{job.name} {job.title}"))


def engine_of(job: Job) -> str | None:
    """The engine that a job is listed under: that of its newest run, or the one asked for."""
    return job.engine or job.ask.engine


def profile_of(job: Job) -> str | None:
    """The name of a job's profile, whatever the version."""
    return job.profile and job.profile.partition("@")[0]


def leases_of(job: Job | None) -> tuple[Lease, ...]:
    """All leases of a job that still hold something: the ending ones, then the live one."""
    held = job.ending if job is not None else ()
    return (*held, job.lease) if job is not None and job.lease else held


class _AskDoc(Ask, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An ask without what it leaves open."""


class _TermsDoc(Terms, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Terms without what they leave open."""


class _JobDoc(Job, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A job without what it leaves open: half the bytes to write at every step."""

    ask: _AskDoc
    terms: _TermsDoc


_encode = msgspec.json.Encoder().encode
_decode_job = msgspec.json.Decoder(Job).decode
_decode_data = msgspec.json.Decoder(dict[str, object]).decode
_decode_expiries = msgspec.json.Decoder(dict[int, int]).decode


def job_row(job: Job) -> JobRow:
    """A job with what it is listed by."""
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
        words_of(job),
        job_doc(job),
    )


def job_doc(job: Job) -> str:
    """The whole of a job as its document; what it does not say is as a new job has it."""
    return _encode(msgspec.convert(job, _JobDoc, from_attributes=True)).decode()


def listing_changed(before: Job, after: Job) -> bool:
    """Whether a change moves anything that a job is listed by, other than its stage and engine."""
    return (
        before.ask.repo != after.ask.repo
        or before.priority is not after.priority
        or before.profile != after.profile
        or before.parent_id != after.parent_id
        or before.name != after.name
        or before.title != after.title
        or before.product_id != after.product_id
    )


def job_of(doc: str | bytes, expiries: Mapping[int, int]) -> Job:
    """The job of a document, with the expiry that each of its epochs has in the lease table."""
    job = _decode_job(doc)
    if job.lease is None and not job.ending:
        return job
    return msgspec.structs.replace(
        job,
        lease=job.lease and _until(job.lease, expiries),
        ending=tuple(_until(lease, expiries) for lease in job.ending),
    )


def _until(lease: Lease, expiries: Mapping[int, int]) -> Lease:
    return msgspec.structs.replace(lease, expires_at=moment(expiries[lease.epoch]))


def expiries_of(object_: str | bytes) -> Mapping[int, int]:
    """The expiries of a job's leases from a JSON object of epoch and milliseconds."""
    return _decode_expiries(object_)


def lease_row(job: Job, lease: Lease) -> LeaseRow:
    """One lease of a job."""
    until = millis(lease.expires_at)
    return LeaseRow(job.id, lease.epoch, lease.factory_id, lease is job.lease, until)


def lease_steps(change: JobChange) -> LeaseSteps:
    """Which leases a change ends, writes and keeps; untouched ones are in none of the three."""
    before, after = change.before, change.after
    if before and (before.lease, before.ending) == (after.lease, after.ending):
        return LeaseSteps((), (), ())
    was, now = ({lease.epoch: lease for lease in leases_of(job)} for job in (before, after))
    live = before and before.lease
    written: list[LeaseRow] = []
    kept: list[LeaseRow] = []
    for epoch, lease in now.items():
        earlier = was.get(epoch)
        if earlier is None or earlier.expires_at != lease.expires_at:
            written.append(lease_row(after, lease))
        elif earlier is live and lease is not after.lease:
            kept.append(lease_row(after, lease))
    return LeaseSteps(tuple(was.keys() - now.keys()), tuple(written), tuple(kept))


def subject(write: JobChange | RecordChange | JobDeletion) -> str:
    """The name by which a verdict speaks of what a write is about."""
    if isinstance(write, JobChange):
        return write.after.id
    if isinstance(write, JobDeletion):
        return write.job.id
    return f"{write.record.kind}/{write.record.key}"


def find_duplicate(writes: Sequence[Write]) -> StaleRevision | None:
    """Return a conflict if a group changes the same job or record twice."""
    names: set[str] = set()
    for write in writes:
        if isinstance(write, JobChange | RecordChange | JobDeletion):
            name = subject(write)
            if name in names:
                return StaleRevision(name)
            names.add(name)
    return None


def dep_steps(change: JobChange) -> DepSteps:
    """Which dependencies a change drops and adds."""
    if (change.before.deps if change.before else ()) == change.after.deps:
        return DepSteps(frozenset(), frozenset())
    was = frozenset(change.before.deps if change.before else ())
    now = frozenset(change.after.deps)
    return DepSteps(was - now, now - was)


def spec_row(spec: JobSpec) -> SpecRow:
    """What was asked for, as text."""
    return SpecRow(spec.job_id, bytes(spec.manifest).decode(), spec.body)


def spec_of(row: SpecRow) -> JobSpec:
    """What was asked for, from its columns."""
    return JobSpec(row.job_id, msgspec.Raw(row.manifest.encode()), row.body)


def event_row(event: Event, position: int) -> EventRow:
    """An event at its place in the feed."""
    return EventRow(
        position,
        event.job_id,
        event.seq,
        event.product_id,
        event.type,
        millis(event.at),
        event.actor,
        event.stage and event.stage.value,
        _encode(event.data).decode(),
    )


def event_of(row: EventRow) -> Event:
    """An event from its columns."""
    return Event(
        type=row.type,
        at=moment(row.at),
        actor=row.actor,
        product_id=row.product_id,
        job_id=row.job_id,
        seq=row.seq,
        stage=Stage(row.stage) if row.stage else None,
        data=_decode_data(row.data),
        position=row.position,
    )


def record_row(record: Record) -> RecordRow:
    """A record other than a job, with what it is found by."""
    assert KINDS[record.kind] is type(record), f"{record.kind} is not a kind that is kept"
    until = None if record.expires_at is None else millis(record.expires_at)
    columns = (record.kind, record.key, record.product_id, record.rev, until)
    return RecordRow(*columns, _encode(record).decode())


def record_of(of: type[AnyRecord], doc: str | bytes) -> AnyRecord:
    """The record of a document."""
    return msgspec.json.decode(doc, type=of)


def json_list(values: Collection[str | tuple[str, str]]) -> str:
    """Many values as one, for a query that takes a JSON list."""
    return _encode(list(values)).decode()


def after_prefix(prefix: str) -> str:
    """The upper bound of all keys that begin so, by code point."""
    return prefix + "\U0010ffff"
