"""The store in a SQLite file, owned by one coordinator."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery
from gigafactory.domain.job.change import (
    CommitResult,
    FeedEntry,
    JobChange,
    Record,
    Stored,
    Write,
)
from gigafactory.domain.job.job import Event, Job, JobSpec, Stage
from gigafactory.store import rows
from gigafactory.store.group_commit import (
    BATCH_WRITES_MAX,
    BatchResult,
    Group,
    GroupCommit,
)
from gigafactory.store.recent_feed import RecentFeed
from gigafactory.store.sqlite.batch import Batch
from gigafactory.store.sqlite.commit_sync import CommitSync
from gigafactory.store.sqlite.connection import (
    WRITER_CACHE_KIB,
    OpenedFile,
    connect,
    map_db_errors,
    migrate,
    open_transaction,
    ownership,
)
from gigafactory.store.sqlite.job_query import find_rows
from gigafactory.store.sqlite.position_mark import PositionMark
from gigafactory.store.sqlite.queries import SQL
from gigafactory.store.sqlite.readers import SqliteReaders
from gigafactory.store.sqlite.row_cache import RowCache

AnyRecord = TypeVar("AnyRecord", bound=Record)
T = TypeVar("T")
# Only the query knows the types of its columns.
Row = tuple[Any, ...]

READERS = 3
FINDERS = 2
LAST_POSITION = 2**63 - 1
FEW = 100
"""Up to this many rows are read on the event loop: a thread would take longer."""
ROWS_INLINE_MAX = 2 * BATCH_WRITES_MAX
"""Only a request that stores thousands of jobs or dependencies at once changes more rows."""


class SqliteStore:
    """A store in one SQLite file: one sync per batch of commits, separate reader connections."""

    def __init__(self, path: Path, writer: sqlite3.Connection) -> None:
        """Use a migrated connection; call `open` instead."""
        self._path = path
        self._file = OpenedFile(path)
        self._mark = PositionMark(path)
        self._writer = writer
        self._syncs = CommitSync(writer)
        self._readers = SqliteReaders(path, READERS)
        # Separate connections: a long search must not delay a worker's short read.
        self._finders = SqliteReaders(path, FINDERS)
        (position,) = writer.execute(SQL["position"]).fetchone()
        self._feed = RecentFeed(position)
        self._stored_position = position
        self.rollbacks = int(self._mark.is_ahead_of(position, path))
        self._cache = RowCache()
        self._group = GroupCommit(self._apply, self._feed.append)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path | str) -> AsyncIterator["SqliteStore"]:
        """Open the store in a file for the block; create or migrate the file if needed.

        Raises Unavailable if another coordinator owns the file, or the file cannot be used.
        """
        path = Path(path)
        with ExitStack() as stack:
            with map_db_errors(path):
                stack.enter_context(ownership(path))
                writer = connect(path, cache_kib=WRITER_CACHE_KIB)
                stack.callback(writer.close)
                migrate(writer, path)
            store = cls(path, writer)
            try:
                yield store
            finally:
                await store._close()

    async def _close(self) -> None:
        await self._group.close()
        self._syncs.close()
        self._mark.close(self._feed.position)
        self._readers.close()
        self._finders.close()

    async def commit(self, *writes: Write) -> CommitResult:
        return await self._group.commit(writes)

    async def _apply(self, groups: list[Group]) -> BatchResult:
        stored = False
        self._file.require_in_place()
        try:
            with map_db_errors(self._path):
                applied = await self._write_large_in_thread(groups)
                await self._syncs.commit(sum(map(len, groups)))
            stored = True
        finally:
            if not stored:
                # The outcome is unknown.
                self._cache = RowCache()
        if applied.entries:
            self._stored_position = applied.entries[-1].event.position
        # Also after commits without events: the reaper's beats mark what came in a short burst.
        self._mark.write(self._stored_position)
        for writes, verdict in zip(groups, applied.verdicts, strict=True):
            if isinstance(verdict, Stored):
                self._cache.apply(writes)
        return applied

    async def _write_large_in_thread(self, groups: list[Group]) -> BatchResult:
        """Write on the event loop, unless that would hold up all other requests."""
        if _row_count(groups) > ROWS_INLINE_MAX:
            return await asyncio.to_thread(self._write, groups)
        return self._write(groups)

    def _write(self, groups: list[Group]) -> BatchResult:
        """Check the groups and write the valid ones; the transaction stays open."""
        with open_transaction(self._writer):
            batch = Batch(self._writer, self._cache)
            batch.preload(groups)
            verdicts = [batch.apply(writes) for writes in groups]
            batch.flush()
        return BatchResult(verdicts, batch.entries)

    async def job(self, job_id: str) -> Job | None:
        if (cached := self._cache.jobs.get(job_id)) is not None:
            self._readers.require_open()
            return cached
        jobs = self._read_inline("job", _jobs, job_id)
        if not jobs:
            return None
        self._cache.put_job(jobs[0])
        return jobs[0]

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        self._readers.require_open()
        cache = self._cache.jobs
        cached = {job_id: cache[job_id] for job_id in job_ids if job_id in cache}
        if len(cached) == len(job_ids):
            return cached
        others = [job_id for job_id in job_ids if job_id not in cached]
        return cached | {job.id: job for job in await self._read_keys("jobs", _jobs, others)}

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        return await self._finders.read(lambda reader: _jobs(find_rows(reader, query)))

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        self._readers.require_open()
        cache = self._cache.specs
        cached = {job_id: cache[job_id] for job_id in job_ids if job_id in cache}
        if len(cached) == len(job_ids):
            return cached
        others = [job_id for job_id in job_ids if job_id not in cached]
        return cached | {
            spec.job_id: spec for spec in await self._read_keys("specs", _specs, others)
        }

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        return await self._read("events", _events, job_id, after, limit)

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        below = LAST_POSITION if before is None else before
        wanted = None if products is None else rows.json_list(products)
        return await self._read("audit", _events, below, wanted, limit)

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        recent = self._feed.entries_after(after, limit)
        return await self._read("feed", _entries, after, limit) if recent is None else recent

    async def position(self) -> int:
        return self._feed.position

    async def wait_for_change(self, after: int) -> None:
        await self._feed.wait(after)

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        return self._read_inline("holders", dict, rows.json_list(keys)) if keys else {}

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        return await self._read("held", dict, prefix, rows.after_prefix(prefix))

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        return await self._read("expired", _jobs, rows.to_millis(now), limit)

    async def dependents(self, job_id: str) -> Sequence[Job]:
        return await self._read("dependents", _jobs, job_id)

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        if (of.kind, key) in self._cache.records:
            self._readers.require_open()
            cached = self._cache.records[of.kind, key]
            assert cached is None or isinstance(cached, of), "every record kind has one type"
            return cached
        records = self._read_inline("record", _records(of), of.kind, key)
        record = records[0] if records else None
        self._cache.put_record(of.kind, key, record)
        return record

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        # Recent records are cached, and others are rarely read.
        records = [await self.record(of, key) for key in keys]
        return {record.key: record for record in records if record is not None}

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        bounds = (prefix, rows.after_prefix(prefix), after)
        values = (of.kind, *bounds, limit)
        if limit <= FEW:
            return self._read_inline("records", _records(of), *values)
        return await self._read("records", _records(of), *values)

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        return await self._read("outdated", _records(of), of.kind, rows.to_millis(now), limit)

    async def last_seen(self) -> Mapping[str, datetime]:
        seen: dict[str, int] = await self._read("last_seen", dict)
        return {factory_id: rows.from_millis(at) for factory_id, at in seen.items()}

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        wanted = None if products is None else rows.json_list(products)
        counts: dict[str, int] = await self._read("counts", dict, wanted)
        return {stage: counts.get(stage.value, 0) for stage in Stage}

    def _read_inline(self, query: str, read: Callable[[list[Row]], T], *values: object) -> T:
        """Run a query for few rows on the event loop: a thread would take longer."""
        return self._readers.read_inline(lambda reader: read(_rows(reader, query, values)))

    async def _read_keys(
        self, query: str, read: Callable[[list[Row]], T], keys: Collection[str]
    ) -> T:
        listed = rows.json_list(keys)
        few = len(keys) <= FEW
        return (
            self._read_inline(query, read, listed) if few else await self._read(query, read, listed)
        )

    async def _read(self, query: str, read: Callable[[list[Row]], T], *values: object) -> T:
        """Run a query in a reader thread, and convert its rows there with `read`."""
        return await self._readers.read(lambda reader: read(_rows(reader, query, values)))


def _row_count(groups: list[Group]) -> int:
    """Return about how many rows a batch changes."""
    jobs = [write.after for group in groups for write in group if isinstance(write, JobChange)]
    return sum(map(len, groups)) + sum([len(job.deps) for job in jobs])


def _rows(reader: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[Row]:
    return reader.execute(SQL[query], values).fetchall()


def _jobs(job_rows: Iterable[Row]) -> list[Job]:
    return [rows.job_from_doc(doc, rows.parse_expiries(expiries)) for doc, expiries in job_rows]


def _specs(spec_rows: list[Row]) -> list[JobSpec]:
    return [rows.spec_from_row(rows.SpecRow(*row)) for row in spec_rows]


def _events(event_rows: list[Row]) -> list[Event]:
    return [rows.event_from_row(rows.EventRow(*row)) for row in event_rows]


def _entries(entry_rows: list[Row]) -> list[FeedEntry]:
    return [
        FeedEntry(
            rows.event_from_row(rows.EventRow(*row)),
            None if doc is None else rows.job_from_doc(doc, rows.parse_expiries(expiries)),
        )
        for *row, doc, expiries in entry_rows
    ]


def _records(of: type[AnyRecord]) -> Callable[[list[Row]], list[AnyRecord]]:
    return lambda record_rows: [rows.record_from_doc(of, doc) for (doc,) in record_rows]
