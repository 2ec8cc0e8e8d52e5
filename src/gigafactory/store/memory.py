"""The reference store: plain dictionaries in memory."""

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery
from gigafactory.domain.job.change import (
    CommitResult,
    FactoriesSeen,
    FeedEntry,
    Guard,
    JobChange,
    JobDeletion,
    KeyTaken,
    LeaseExpiredGuard,
    LeaseExtension,
    Record,
    RecordChange,
    Renewal,
    RevisionGuard,
    StaleRevision,
    Stored,
    Write,
)
from gigafactory.domain.job.job import Event, Job, JobSpec, Lease, Stage
from gigafactory.store.recent_feed import RecentFeed
from gigafactory.store.rows import (
    engine_of,
    find_duplicate,
    leases_of,
    profile_of,
    split_words,
    subject,
)

AnyRecord = TypeVar("AnyRecord", bound=Record)


class MemoryStore:
    """A store in dictionaries; a commit runs without awaiting, so it is atomic."""

    rollbacks = 0

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._specs: dict[str, JobSpec] = {}
        self._events: list[FeedEntry] = []
        self._holds: dict[str, str] = {}
        self._expiries: dict[tuple[str, int], datetime] = {}
        self._records: dict[tuple[str, str], Record] = {}
        self._seen: dict[str, datetime] = {}
        self._feed = RecentFeed()

    async def commit(self, *writes: Write) -> CommitResult:
        await asyncio.sleep(0)
        stale = next((verdict for write in writes if (verdict := self._find_stale(write))), None)
        if refused := stale or find_duplicate(writes) or self._find_taken_key(writes):
            return refused
        for write in writes:
            self._apply(write)
        return Stored(self._append(writes))

    def _find_stale(self, write: Write) -> StaleRevision | None:  # noqa: PLR0911 - one for each kind of write
        match write:
            case JobChange():
                now = self._jobs.get(write.after.id)
                before = write.before
                if before is None or now is None:
                    fits = before is None and now is None
                else:
                    fits = (now.rev, now.seq) == (before.rev, before.seq)
                if not fits:
                    return StaleRevision(subject(write))
                return self._find_failed_guard(write.guards)
            case RecordChange():
                place = (write.record.kind, write.record.key)
                if self._rev(place) != (write.before.rev if write.before else 0):
                    return StaleRevision(subject(write))
                return self._find_failed_guard(write.guards)
            case Renewal():
                job = self._jobs.get(write.job_id)
                live = job is not None and job.lease is not None and job.lease.epoch == write.epoch
                return None if live else StaleRevision(write.job_id)
            case JobDeletion():
                return None if self._is_deletable(write.job) else StaleRevision(subject(write))
            case FactoriesSeen() | LeaseExtension():
                return None

    def _is_deletable(self, job: Job) -> bool:
        stored = self._jobs.get(job.id)
        same = stored is not None and (stored.rev, stored.seq) == (job.rev, job.seq)
        return same and not self._dependents(job.id)

    def _find_failed_guard(self, guards: tuple[Guard, ...]) -> StaleRevision | None:
        for guard in guards:
            match guard:
                case RevisionGuard():
                    if self._rev((guard.kind, guard.key)) != guard.rev:
                        return StaleRevision(f"{guard.kind}/{guard.key}")
                case LeaseExpiredGuard():
                    expiry = self._expiries.get((guard.job_id, guard.epoch))
                    if expiry is None or expiry > guard.at:
                        return StaleRevision(guard.job_id)
        return None

    def _rev(self, place: tuple[str, str]) -> int:
        kind, key = place
        stored = self._jobs.get(key) if kind == "job" else self._records.get(place)
        return stored.rev if stored else 0

    def _find_taken_key(self, writes: tuple[Write, ...]) -> KeyTaken | None:
        changes = [write for write in writes if isinstance(write, JobChange)]
        freed = {(key, change.after.id) for change in changes for key in change.free}
        taken: dict[str, str] = {}
        for change in changes:
            for key in change.take:
                owner = taken.get(key) or self._holds.get(key)
                if owner is not None and (key in taken or (key, owner) not in freed):
                    return KeyTaken(key, owner)
                taken[key] = change.after.id
        return None

    def _apply(self, write: Write) -> None:
        match write:
            case JobChange():
                self._apply_job(write)
            case RecordChange():
                place = (write.record.kind, write.record.key)
                if write.after is None:
                    del self._records[place]
                else:
                    self._records[place] = write.after
            case Renewal():
                lease = (write.job_id, write.epoch)
                if lease in self._expiries:
                    self._expiries[lease] = max(self._expiries[lease], write.expires_at)
            case FactoriesSeen():
                for factory_id, at in write.at.items():
                    self._seen[factory_id] = max(at, self._seen.get(factory_id, at))
            case LeaseExtension():
                self._expiries = {at: end + write.by for at, end in self._expiries.items()}
            case JobDeletion():
                self._delete_job(write)

    def _delete_job(self, write: JobDeletion) -> None:
        job_id = write.job.id
        del self._jobs[job_id]
        self._specs.pop(job_id, None)
        self._events = [entry for entry in self._events if entry.event.job_id != job_id]
        for key in write.free:
            if self._holds.get(key) == job_id:
                del self._holds[key]

    def _apply_job(self, change: JobChange) -> None:
        after = change.after
        self._jobs[after.id] = after
        if change.spec is not None:
            self._specs[after.id] = change.spec
        leases_before = {lease.epoch: lease for lease in leases_of(change.before)}
        now = {lease.epoch: lease for lease in leases_of(after)}
        for epoch in leases_before.keys() - now.keys():
            del self._expiries[after.id, epoch]
        for epoch, lease in now.items():
            if epoch not in leases_before or leases_before[epoch].expires_at != lease.expires_at:
                self._expiries[after.id, epoch] = lease.expires_at
        for key in change.free:
            if self._holds.get(key) == after.id:
                del self._holds[key]
        for key in change.take:
            self._holds[key] = after.id

    def _append(self, writes: tuple[Write, ...]) -> int:
        entries = []
        position = self._feed.position
        for write in writes:
            for event in write.events if isinstance(write, JobChange | RecordChange) else ():
                position += 1
                placed = msgspec.structs.replace(event, position=position)
                entries.append(
                    FeedEntry(placed, write.after if isinstance(write, JobChange) else None)
                )
        self._events += entries
        self._feed.append(entries)
        return entries[-1].event.position if entries else 0

    def _with_expiries(self, job: Job) -> Job:
        if job.lease is None and not job.ending:
            return job
        return msgspec.structs.replace(
            job,
            lease=job.lease and self._with_expiry(job.id, job.lease),
            ending=tuple(self._with_expiry(job.id, lease) for lease in job.ending),
        )

    def _with_expiry(self, job_id: str, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, expires_at=self._expiries[job_id, lease.epoch])

    async def job(self, job_id: str) -> Job | None:
        await asyncio.sleep(0)
        job = self._jobs.get(job_id)
        return job and self._with_expiries(job)

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        await asyncio.sleep(0)
        return {id_: self._with_expiries(self._jobs[id_]) for id_ in job_ids if id_ in self._jobs}

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        await asyncio.sleep(0)
        ids = sorted(self._jobs, reverse=not query.oldest_first)
        if query.after is not None:
            after = query.after
            ids = [id_ for id_ in ids if (id_ > after) == query.oldest_first and id_ != after]
        matching = (job for id_ in ids if _matches(job := self._jobs[id_], query))
        return [
            self._with_expiries(job) for job, _ in zip(matching, range(query.limit), strict=False)
        ]

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        await asyncio.sleep(0)
        return {job_id: self._specs[job_id] for job_id in job_ids if job_id in self._specs}

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        await asyncio.sleep(0)
        events = [e.event for e in self._events if e.event.job_id == job_id and e.event.seq > after]
        return events[:limit]

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        await asyncio.sleep(0)
        entries = [
            entry.event
            for entry in reversed(self._events)
            if entry.event.job_id is None
            and (before is None or entry.event.position < before)
            and (products is None or entry.event.product_id in products)
        ]
        return entries[:limit]

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        await asyncio.sleep(0)
        start = bisect_right(self._events, after, key=lambda entry: entry.event.position)
        return self._events[start : start + limit]

    async def position(self) -> int:
        await asyncio.sleep(0)
        return self._feed.position

    async def wait_for_change(self, after: int) -> None:
        await self._feed.wait(after)

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        await asyncio.sleep(0)
        return {key: self._holds[key] for key in keys if key in self._holds}

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        await asyncio.sleep(0)
        return {key: owner for key, owner in self._holds.items() if key.startswith(prefix)}

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        await asyncio.sleep(0)
        due = sorted((at, job_id) for (job_id, _), at in self._expiries.items() if at <= now)
        ids = dict.fromkeys(job_id for _, job_id in due)
        return [
            self._with_expiries(self._jobs[id_]) for id_, _ in zip(ids, range(limit), strict=False)
        ]

    async def dependents(self, job_id: str) -> Sequence[Job]:
        await asyncio.sleep(0)
        return [self._with_expiries(job) for job in self._dependents(job_id)]

    def _dependents(self, job_id: str) -> list[Job]:
        waiting = (job for job in self._jobs.values() if job_id in job.deps and not job.finished)
        return sorted(waiting, key=lambda job: job.id)

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        await asyncio.sleep(0)
        record = self._records.get((of.kind, key))
        assert record is None or isinstance(record, of), "every record kind has one type"
        return record

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        await asyncio.sleep(0)
        return {record.key: record for record in self._records_of(of) if record.key in set(keys)}

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        await asyncio.sleep(0)
        keys = sorted(
            r.key for r in self._records_of(of) if r.key.startswith(prefix) and r.key > after
        )
        records = [self._records[of.kind, key] for key in keys[:limit]]
        return [record for record in records if isinstance(record, of)]

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        await asyncio.sleep(0)
        until = {r.key: r.expires_at for r in self._records_of(of) if r.expires_at is not None}
        due = sorted((at, key) for key, at in until.items() if at <= now)
        expired = [self._records[of.kind, key] for _, key in due[:limit]]
        return [record for record in expired if isinstance(record, of)]

    def _records_of(self, of: type[AnyRecord]) -> Iterator[AnyRecord]:
        return (record for record in self._records.values() if isinstance(record, of))

    async def last_seen(self) -> Mapping[str, datetime]:
        await asyncio.sleep(0)
        return dict(self._seen)

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        await asyncio.sleep(0)
        counted = dict.fromkeys(Stage, 0)
        for job in self._jobs.values():
            if products is None or job.product_id in products:
                counted[job.stage] += 1
        return counted


def _matches(job: Job, query: JobQuery) -> bool:
    wanted = (
        (query.name, job.name),
        (query.repo, job.ask.repo),
        (query.profile, profile_of(job)),
        (query.engine, engine_of(job)),
        (query.priority, job.priority),
        (query.parent_id, job.parent_id),
    )
    if any(want is not None and want != has for want, has in wanted):
        return False
    if query.products is not None and job.product_id not in query.products:
        return False
    if query.stages and job.stage not in query.stages:
        return False
    if query.parents and job.parent_id not in query.parents:
        return False
    if query.factory_id and query.factory_id not in {x.factory_id for x in leases_of(job)}:
        return False
    has = split_words(f"{job.name} {job.title}")
    return all(any(h.startswith(w) for h in has) for w in split_words(query.text or ""))
