"""The store in a PostgreSQL database, shared by any number of coordinators."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import structlog
from asyncpg import Record as Row

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import CommitResult, FeedEntry, Record, Write
from gigafactory.domain.job.job import Event, Job, JobSpec, Stage
from gigafactory.store import rows
from gigafactory.store.group_commit import GroupCommit, footprint
from gigafactory.store.postgres.connection import Connection, Database, migrate
from gigafactory.store.postgres.job_query import statements_for
from gigafactory.store.postgres.listener import Listener
from gigafactory.store.postgres.queries import SQL
from gigafactory.store.postgres.readers import CoalescedReads, PostgresReaders
from gigafactory.store.postgres.writer import Writer
from gigafactory.store.recent_feed import RecentFeed

AnyRecord = TypeVar("AnyRecord", bound=Record)

log = structlog.get_logger()

LANES = 2
"""Concurrent batches: the next one is prepared while the database writes one."""
READERS = 4
READER_SETTINGS = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
"""Plans are cached while tables grow a thousandfold, so they must use indexes."""
FINDERS = 2
FINDER_SETTINGS = {
    "plan_cache_mode": "force_custom_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
}
"""A page is short, so reading along an index beats every plan that reads a whole table."""
LAST_POSITION = 2**63 - 1
OFFSET_SAMPLES = 5
IDENTIFYING_COLUMNS = 7
"""The first columns of an event, from its position to its actor, tell one history from another."""


class PostgresStore:
    """A store in one schema; concurrent commits share a round trip and a sync."""

    def __init__(self, database: Database, position: int) -> None:
        """Use a migrated schema; call `open` instead."""
        self._readers = PostgresReaders(database, READERS, **READER_SETTINGS)
        # A search can be slow, and its best plan depends on the search values.
        self._finders = PostgresReaders(database, FINDERS, **FINDER_SETTINGS)
        self._feed = RecentFeed(position)
        self._writers = [Writer(database) for _ in range(LANES)]
        self._group_commits = [
            GroupCommit(writer.apply, self._feed.append, footprint_of=footprint)
            for writer in self._writers
        ]
        self._turn = itertools.cycle(self._group_commits)
        self._listener = Listener(database, self._on_position)
        database.on_connected = self._check_history
        self.rollbacks = 0
        self._single_jobs = CoalescedReads(self.jobs)
        self._single_records = CoalescedReads(self._records)

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str, *, schema: str = "gigafactory") -> AsyncIterator["PostgresStore"]:
        """Open the store in a database for the block; create or migrate the schema if needed.

        Raises Unavailable.
        """
        database = Database(dsn, schema)
        with database.map_db_errors():
            connection = await database.connect()
            try:
                await migrate(connection, schema)
                position = await connection.fetchval(SQL["position"])
            finally:
                await connection.close()
        store = cls(database, position)
        listening = asyncio.create_task(store._listener.run(), name="postgres-listener")
        try:
            yield store
        finally:
            await store._close(listening)

    async def _close(self, listening: asyncio.Task[None]) -> None:
        for group_commit in self._group_commits:
            await group_commit.close()
        listening.cancel()
        await asyncio.wait([listening])
        for writer in self._writers:
            writer.close()
        await self._readers.close()
        await self._finders.close()

    def _on_position(self, backend: int, position: int) -> None:
        # Commits of our own writers reach the feed directly, with their events.
        if all(writer.backend != backend for writer in self._writers):
            self._feed.advance(position)

    async def measure_offset(self, steady: Callable[[], float]) -> float:
        """Return how many seconds the database's time is ahead of a clock, by the fastest sample.

        Raises Unavailable.
        """
        measured: list[tuple[float, float]] = []
        for _ in range(OFFSET_SAMPLES):
            asked = steady()
            [(database_s,)] = await self._readers.fetch(SQL["time"])
            answered = steady()
            measured.append((answered - asked, database_s - (asked + answered) / 2))
        return min(measured)[1]

    async def commit(self, *writes: Write) -> CommitResult:
        return await next(self._turn).commit(writes)

    async def job(self, job_id: str) -> Job | None:
        return await self._single_jobs.get(job_id)

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        return {job.id: job for job in await self._jobs("jobs", _storable(job_ids))}

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        if query.products == ():
            return []
        job_rows: Sequence[Row] = ()
        for statement, values in statements_for(query):
            job_rows = await self._finders.fetch(statement, *values)
            if len(job_rows) == query.limit:
                break
        return _jobs(job_rows)

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        spec_rows = await self._fetch("specs", _storable(job_ids))
        return {row[0]: rows.spec_from_row(rows.SpecRow(*row)) for row in spec_rows}

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        return _events(await self._fetch("events", job_id, after, limit))

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        below = LAST_POSITION if before is None else min(before, LAST_POSITION)
        wanted = None if products is None else _storable(products)
        return _events(await self._fetch("audit", below, wanted, limit))

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        recent = self._feed.entries_after(after, limit)
        if recent is not None:
            return recent
        entries = _entries(await self._fetch("feed", after, limit))
        self._feed.note(entries)
        return entries

    async def position(self) -> int:
        cached = self._feed.position
        [(position,)] = await self._fetch("position")
        if position < cached:
            self._lose_history(position)
        self._feed.advance(position)
        return self._feed.position

    async def _check_history(self, connection: Connection) -> None:
        """Check that the server of a new connection has the events seen before.

        Each connection is checked before its first use: what it writes or reads would be taken for
        the history seen before.
        """
        newest, known, losses = self._feed.newest, self._feed.position, self.rollbacks
        position = await connection.fetchval(SQL["position"])
        lost = position < known
        if newest is not None and not lost:
            row = await connection.fetchrow(SQL["feed"], newest.position - 1, 1)
            expected = rows.event_row(newest, newest.position)[:IDENTIFYING_COLUMNS]
            # A deleted job has no events left, and then the next one is found.
            stored = tuple(row)[:IDENTIFYING_COLUMNS] if row is not None else expected
            lost = stored[0] == newest.position and stored != expected
        if lost and losses == self.rollbacks:
            self._lose_history(position)

    def _lose_history(self, position: int) -> None:
        log.error(
            "the database has lost stored history: an older standby or backup serves now;"
            " reading everything again",
            known_position=self._feed.position,
            position=position,
        )
        self.rollbacks += 1
        self._feed.reset(position)

    async def wait_for_change(self, after: int) -> None:
        await self._feed.wait(after)
        if self._feed.position <= after:
            # A notification may be lost together with its connection.
            with suppress(Unavailable):
                await self.position()

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        return _pairs(await self._fetch("holders", _storable(keys))) if keys else {}

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        return _pairs(await self._fetch("held", prefix, rows.after_prefix(prefix)))

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        return await self._jobs("expired", rows.to_millis(now), limit)

    async def dependents(self, job_id: str) -> Sequence[Job]:
        return await self._jobs("dependents", job_id)

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        doc = await self._single_records.get((of.kind, key))
        return None if doc is None else rows.record_from_doc(of, doc)

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        records = await self._records([(of.kind, key) for key in keys])
        return {key: rows.record_from_doc(of, doc) for (_, key), doc in records.items()}

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        bounds = (prefix, rows.after_prefix(prefix), after)
        record_rows = await self._fetch("records", of.kind, *bounds, limit)
        return [rows.record_from_doc(of, doc) for (doc,) in record_rows]

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        record_rows = await self._fetch("outdated", of.kind, rows.to_millis(now), limit)
        return [rows.record_from_doc(of, doc) for (doc,) in record_rows]

    async def last_seen(self) -> Mapping[str, datetime]:
        seen_rows = await self._fetch("last_seen")
        return {factory_id: rows.from_millis(at) for factory_id, at in seen_rows}

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        wanted = None if products is None else _storable(products)
        counts = _pairs(await self._fetch("counts", wanted))
        return {stage: counts.get(stage.value, 0) for stage in Stage}

    async def _fetch(self, query: str, *values: object) -> Sequence[Row]:
        return await self._readers.fetch(SQL[query], *values)

    async def _jobs(self, query: str, *values: object) -> list[Job]:
        return _jobs(await self._fetch(query, *values))

    async def _records(self, places: list[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        wanted = [(kind, key) for kind, key in places if "\0" not in key]
        kinds, keys = [kind for kind, _ in wanted], [key for _, key in wanted]
        return {(kind, key): doc for kind, key, doc in await self._fetch("record", kinds, keys)}


def _storable(keys: Iterable[str]) -> list[str]:
    """Return the keys without NUL; no row can have another key."""
    return [key for key in keys if "\0" not in key]


def _jobs(job_rows: Iterable[Row]) -> list[Job]:
    return [_job(doc, expiries) for doc, expiries in job_rows]


def _job(doc: str, expiries: str | None) -> Job:
    return rows.job_from_doc(doc, rows.parse_expiries(expiries) if expiries else {})


def _events(event_rows: Iterable[Row]) -> list[Event]:
    return [rows.event_from_row(rows.EventRow(*row)) for row in event_rows]


def _entries(entry_rows: Sequence[Row]) -> list[FeedEntry]:
    """Return the entries of the feed; only the last row of each job contains the job."""
    jobs = {row["job_id"]: _job(row["doc"], row["expiries"]) for row in entry_rows if row["doc"]}
    return [
        FeedEntry(rows.event_from_row(rows.EventRow(*row[:-2])), jobs.get(row["job_id"]))
        for row in entry_rows
    ]


def _pairs(pair_rows: Iterable[Row]) -> dict[str, Any]:
    return {row[0]: row[1] for row in pair_rows}
