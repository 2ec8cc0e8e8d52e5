"""A transaction of many groups of writes: check one by one, write all together."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

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
    StaleRevision,
    Stored,
    Write,
)
from gigafactory.domain.job.job import Job
from gigafactory.store import rows
from gigafactory.store.sqlite.queries import SQL, for_rows
from gigafactory.store.sqlite.row_cache import RowCache

K = TypeVar("K")
V = TypeVar("V")

NEVER = (0, 0)
"""Revision and event number of a job that does not exist."""


class Unread:
    """A marker for a record that is not in the cache."""


UNREAD = Unread()


class Overlay(Generic[K, V]):
    """The rows of one table that a batch has read or written; None where there is no row."""

    def __init__(self, load: Callable[[K], V | None]) -> None:
        self._load = load
        self._values: dict[K, V | None] = {}
        self.written: dict[K, V | None] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key after the groups so far."""
        values = self._values
        if key not in values:
            values[key] = self._load(key)
        return values[key]

    def preload(self, keys: Iterable[K], values: Iterable[tuple[K, V]]) -> None:
        """Set the stored values of these keys; keys without a value do not exist."""
        self._values.update(dict.fromkeys(keys))
        self._values.update(values)

    def put(self, key: K, value: V | None) -> None:
        """Write a value, or None to delete the key."""
        self._values[key] = self.written[key] = value

    def reset(self) -> None:
        """Forget everything, after a flush."""
        self._values.clear()
        self.written.clear()


class _NetChange(NamedTuple):
    before: Job | None
    after: Job


class Batch:
    """Checks groups one after the other, and writes their result in few statements."""

    def __init__(self, connection: sqlite3.Connection, cache: RowCache) -> None:
        """Work inside the caller's open transaction; `cache` holds rows as they were before it."""
        self._connection = connection
        self._cache = cache
        self._fetch = connection.execute
        (self._position,) = self._fetch(SQL["position"]).fetchone()
        self._start_position = self._position
        self._jobs: Overlay[str, tuple[int, int]] = Overlay(self._load_job)
        self._leases: Overlay[tuple[str, int], rows.LeaseRow] = Overlay(self._load_lease)
        self._holds: Overlay[str, str] = Overlay(self._load_hold)
        self._records: Overlay[tuple[str, str], Record] = Overlay(lambda _: None)
        self._revs: Overlay[tuple[str, str], int] = Overlay(self._load_rev)
        self._deps: Overlay[tuple[str, str], bool] = Overlay(lambda _: None)
        self._net_changes: dict[str, _NetChange] = {}
        self._specs: list[rows.SpecRow] = []
        self._events: list[rows.EventRow] = []
        self._seen: dict[str, int] = {}
        self.entries: list[FeedEntry] = []

    def preload(self, groups: Sequence[Sequence[Write]]) -> None:
        """Read most rows that the checks of these groups need, in few queries."""
        changes = [w for writes in groups for w in writes if isinstance(w, JobChange)]
        known = self._cache.jobs
        ids = [change.after.id for change in changes if change.after.id not in known]
        cached = self._cache.holds
        keys = [key for c in changes for key in (*c.take, *c.free) if key not in cached]
        if ids:
            revs = self._fetch(SQL["revs_of_jobs"], (rows.json_list(ids),))
            self._jobs.preload(ids, ((id_, (rev, seq)) for id_, rev, seq in revs))
        if keys:
            self._holds.preload(keys, self._fetch(SQL["holders"], (rows.json_list(keys),)))
        saved = (w.record for writes in groups for w in writes if isinstance(w, RecordChange))
        places = [(record.kind, record.key) for record in saved]
        places = [place for place in places if place not in self._cache.records]
        if places:
            revs = self._fetch(SQL["revs_of_records"], (rows.json_list(places),))
            self._revs.preload(places, (((kind, key), rev) for kind, key, rev in revs))

    def apply(self, writes: Sequence[Write]) -> CommitResult:
        """Check one group and return its verdict; later groups see its writes."""
        if (
            refused := self._find_stale(writes)
            or rows.find_duplicate(writes)
            or self._find_taken_key(writes)
        ):
            return refused
        for write in writes:
            self._apply_write(write)
        return Stored(self._append(writes))

    def _find_stale(self, writes: Sequence[Write]) -> StaleRevision | None:
        for write in writes:
            match write:
                case JobChange():
                    before = write.before
                    read = (before.rev, before.seq) if before else NEVER
                    fits = (self._jobs.get(write.after.id) or NEVER) == read
                case RecordChange():
                    place = (write.record.kind, write.record.key)
                    fits = (self._revs.get(place) or 0) == (write.before.rev if write.before else 0)
                case Renewal():
                    lease = self._leases.get((write.job_id, write.epoch))
                    if lease is None or not lease.live:
                        return StaleRevision(write.job_id)
                    continue
                case JobDeletion():
                    fits = self._is_deletable(write.job)
                case FactoriesSeen() | LeaseExtension():
                    continue
            if not fits:
                return StaleRevision(rows.subject(write))
            guards = () if isinstance(write, JobDeletion) else write.guards
            if guards and (failed := self._find_failed_guard(guards)):
                return failed
        return None

    def _find_failed_guard(self, guards: tuple[Guard, ...]) -> StaleRevision | None:
        for guard in guards:
            if isinstance(guard, LeaseExpiredGuard):
                lease = self._leases.get((guard.job_id, guard.epoch))
                if lease is None or lease.expires_at > rows.to_millis(guard.at):
                    return StaleRevision(guard.job_id)
            elif guard.kind == "job":
                if (self._jobs.get(guard.key) or NEVER)[0] != guard.rev:
                    return StaleRevision(f"job/{guard.key}")
            elif (self._revs.get((guard.kind, guard.key)) or 0) != guard.rev:
                return StaleRevision(f"{guard.kind}/{guard.key}")
        return None

    def _find_taken_key(self, writes: Sequence[Write]) -> KeyTaken | None:
        changes = [write for write in writes if isinstance(write, JobChange) and write.take]
        if not changes:
            return None
        freed = {(key, w.after.id) for w in writes if isinstance(w, JobChange) for key in w.free}
        taken: dict[str, str] = {}
        for change in changes:
            for key in change.take:
                if key in taken:
                    return KeyTaken(key, taken[key])
                owner = self._holds.get(key)
                if owner is not None and (key, owner) not in freed:
                    return KeyTaken(key, owner)
                taken[key] = change.after.id
        return None

    def _apply_write(self, write: Write) -> None:
        match write:
            case JobChange():
                self._apply_job_change(write)
            case RecordChange():
                place = (write.record.kind, write.record.key)
                self._records.put(place, write.after)
                self._revs.put(place, write.after.rev if write.after else 0)
            case Renewal():
                self._renew(write)
            case FactoriesSeen():
                for factory_id, at in write.at.items():
                    self._seen[factory_id] = max(rows.to_millis(at), self._seen.get(factory_id, 0))
            case LeaseExtension():
                self._flush_so_far()
                self._fetch(SQL["prolong_leases"], (write.by // rows.MILLISECOND,))
            case JobDeletion():
                self._delete_job(write)

    def _is_deletable(self, job: Job) -> bool:
        # Dependents that this batch added must be found too.
        self._flush_so_far()
        same = (self._jobs.get(job.id) or NEVER) == (job.rev, job.seq)
        return same and self._fetch(SQL["dependents"], (job.id,)).fetchone() is None

    def _delete_job(self, write: JobDeletion) -> None:
        job = write.job
        self._flush_so_far()
        self._execute_rows("count_jobs", [(job.product_id, job.stage.value, -1)])
        for query in ("forget_words", "forget_events", "forget_spec", "forget_job"):
            self._fetch(SQL[query], (job.id,))
        self._execute_rows("forget_hold", [(key, job.id) for key in write.free])
        self._execute_rows("drop_dep", [(dep_id, job.id) for dep_id in job.deps])

    def _apply_job_change(self, change: JobChange) -> None:
        after = change.after
        self._jobs.put(after.id, (after.rev, after.seq))
        earlier = self._net_changes.get(after.id)
        self._net_changes[after.id] = _NetChange(
            earlier.before if earlier else change.before, after
        )
        if change.spec is not None:
            self._specs.append(rows.spec_row(change.spec))
        self._apply_leases(change)
        deps = rows.dep_changes(change)
        for dep_id in deps.removed:
            self._deps.put((dep_id, after.id), None)
        for dep_id in deps.added:
            self._deps.put((dep_id, after.id), value=True)
        for key in change.free:
            if self._holds.get(key) == after.id:
                self._holds.put(key, None)
        for key in change.take:
            self._holds.put(key, after.id)

    def _apply_leases(self, change: JobChange) -> None:
        job_id = change.after.id
        changes = rows.lease_changes(change)
        for epoch in changes.ended:
            self._leases.put((job_id, epoch), None)
        for lease in changes.written:
            self._leases.put((job_id, lease.epoch), lease)
        for lease in changes.revoked:
            current = self._leases.get((job_id, lease.epoch))
            until = current.expires_at if current else lease.expires_at
            self._leases.put((job_id, lease.epoch), lease._replace(expires_at=until))

    def _renew(self, write: Renewal) -> None:
        key = (write.job_id, write.epoch)
        lease = self._leases.get(key)
        if lease is not None:
            until = max(lease.expires_at, rows.to_millis(write.expires_at))
            self._leases.put(key, lease._replace(expires_at=until))

    def _append(self, writes: Sequence[Write]) -> int:
        before = self._position
        for write in writes:
            if isinstance(write, JobChange | RecordChange):
                job = write.after if isinstance(write, JobChange) else None
                for event in write.events:
                    self._position += 1
                    self._events.append(rows.event_row(event, self._position))
                    placed = msgspec.structs.replace(event, position=self._position)
                    self.entries.append(FeedEntry(placed, job))
        return self._position if self._position > before else 0

    def flush(self) -> None:
        """Write the result of all groups."""
        self._flush_jobs()
        self._execute_rows("insert_spec", self._specs)
        self._execute_rows("insert_event", self._events)
        self._flush_keyed("free_hold", "take_hold", self._holds.written)
        leases = self._leases.written
        self._execute_rows("end_lease", [key for key, lease in leases.items() if lease is None])
        self._execute_rows("write_lease", [lease for lease in leases.values() if lease is not None])
        deps = self._deps.written
        self._execute_rows("drop_dep", [key for key, waits in deps.items() if not waits])
        self._execute_rows("insert_dep", [key for key, waits in deps.items() if waits])
        records = self._records.written
        self._execute_rows(
            "remove_record", [key for key, record in records.items() if record is None]
        )
        self._execute_rows(
            "write_record", [rows.record_row(r) for r in records.values() if r is not None]
        )
        self._execute_rows("write_seen", list(self._seen.items()))
        if self._position > self._start_position:
            self._fetch(SQL["advance_feed"], (self._position,))

    def _flush_so_far(self) -> None:
        """Write the result of the groups so far, so that queries see it."""
        self.flush()
        self._reset()

    def _flush_jobs(self) -> None:
        new, same, moved, listing_changed_jobs = [], [], [], []
        tally: Counter[tuple[str, str]] = Counter()
        for before, after in self._net_changes.values():
            stays = before is not None and before.stage is after.stage
            if not stays or (before and before.product_id != after.product_id):
                tally[after.product_id, after.stage.value] += 1
                if before is not None:
                    tally[before.product_id, before.stage.value] -= 1
            if before is None:
                new.append(rows.job_row(after))
            elif rows.listing_changed(before, after):
                listing_changed_jobs.append(rows.job_row(after))
            elif stays and rows.engine_of(before) == rows.engine_of(after):
                same.append((after.rev, after.seq, rows.job_doc(after), after.id))
            else:
                engine, doc = rows.engine_of(after), rows.job_doc(after)
                moved.append((after.stage.value, engine, after.rev, after.seq, doc, after.id))
        self._execute_rows("insert_job", new)
        self._execute_rows("update_job", same)
        self._execute_rows("move_job", moved)
        self._execute_rows("relist_job", listing_changed_jobs)
        self._execute_rows("count_jobs", [(*place, jobs) for place, jobs in tally.items() if jobs])

    def _flush_keyed(self, remove: str, write: str, written: dict[str, str | None]) -> None:
        self._execute_rows(remove, [(key,) for key, value in written.items() if value is None])
        self._execute_rows(
            write, [(key, value) for key, value in written.items() if value is not None]
        )

    def _execute_rows(self, query: str, values: Sequence[tuple[object, ...]]) -> None:
        if values:
            for statement, parameters in for_rows(query, values):
                self._fetch(statement, parameters)

    def _reset(self) -> None:
        for overlay in (
            self._jobs,
            self._leases,
            self._holds,
            self._records,
            self._revs,
            self._deps,
        ):
            overlay.reset()
        self._net_changes.clear()
        self._specs.clear()
        self._events.clear()
        self._seen.clear()
        # The cache does not have the rows that were just written.
        self._cache = RowCache()

    def _load_job(self, job_id: str) -> tuple[int, int] | None:
        cached = self._cache.jobs.get(job_id)
        if cached is not None:
            return cached.rev, cached.seq
        row: tuple[int, int] | None = self._fetch(SQL["rev_of_job"], (job_id,)).fetchone()
        return row

    def _load_lease(self, key: tuple[str, int]) -> rows.LeaseRow | None:
        row = self._fetch(SQL["lease"], key).fetchone()
        return row and rows.LeaseRow(*row)

    def _load_hold(self, key: str) -> str | None:
        if key in self._cache.holds:
            return self._cache.holds[key]
        row: tuple[str] | None = self._fetch(SQL["owner_of_hold"], (key,)).fetchone()
        return row and row[0]

    def _load_rev(self, place: tuple[str, str]) -> int | None:
        cached = self._cache.records.get(place, UNREAD)
        if not isinstance(cached, Unread):
            return cached.rev if cached is not None else None
        row: tuple[int] | None = self._fetch(SQL["rev_of_record"], place).fetchone()
        return row and row[0]
