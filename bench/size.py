"""Bytes of a job in each store and in blob storage, and the capacity table based on them."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import capacity
import job_lifecycle
from fleet import serving
from harness import Harness
from table import Row, Section
from table import size as format_size

BYTES = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE n.nspname = 'gigafactory' AND c.relkind = 'r'"
)
RENEWALS = 200
WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"


@dataclass(frozen=True)
class JobSize:
    """Mean bytes of a job, and the number of its events."""

    written: float
    packed: float
    events: int
    blobs: float = 0.0
    wal: float = 0.0
    renewal_wal: float = 0.0


def sections(harness: Harness) -> list[Section]:
    """Measure jobs without and with the responses that are stored for idempotency keys."""
    jobs = 160 // harness.scale
    sqlite, sqlite_keyed = (_sqlite(jobs, keyed=keyed) for keyed in (False, True))
    postgres, postgres_keyed = (
        _postgres(harness.database(), jobs, keyed=keyed) for keyed in (False, True)
    )
    log = job_lifecycle.LOG_CHUNKS * len(job_lifecycle.LOG)
    beside = f"{format_size(log)} of log in {job_lifecycle.LOG_CHUNKS} chunks"
    rows = [
        *_rows("SQLite", sqlite, sqlite_keyed),
        *_rows("PostgreSQL", postgres, postgres_keyed),
        (
            "PostgreSQL: WAL of a job",
            format_size(postgres_keyed.wal),
            f"and {format_size(postgres_keyed.renewal_wal)} per renewal",
            "",
        ),
        ("blobs of a job", format_size(sqlite.blobs), beside, ""),
    ]
    note = (
        f"From submit to shipped, with a body of {format_size(len(job_lifecycle.BODY))}:"
        f" {job_lifecycle.REQUESTS} requests and {sqlite.events} events; the mean of {jobs} jobs."
        " *Packed* is after a full VACUUM,\n*written* before it. The response to every request with"
        " an `Idempotency-Key` is stored for a day."
    )
    sheet = capacity.sheet(
        capacity.Bytes(sqlite.written, sqlite_keyed.written - sqlite.written),
        capacity.Bytes(postgres.written, postgres_keyed.written - postgres.written),
        postgres_keyed.wal + postgres_keyed.renewal_wal * capacity.RENEWALS,
    )
    return [Section("Size", rows, note), sheet]


def _rows(store: str, plain: JobSize, keyed: JobSize) -> list[Row]:
    return [
        (
            f"{store}: a job, written",
            format_size(plain.written),
            f"packed {format_size(plain.packed)}",
            "",
        ),
        (
            f"{store}: its stored responses, for a day",
            format_size(keyed.written - plain.written),
            f"packed {format_size(keyed.packed - plain.packed)}",
            "",
        ),
    ]


def _sqlite(jobs: int, *, keyed: bool) -> JobSize:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        empty, _, _ = _complete_jobs(folder, 0, keyed=keyed)
        written, packed, events = _complete_jobs(folder, jobs, keyed=keyed)
        blobs = sum(f.stat().st_size for f in (folder / "blobs").rglob("*") if f.is_file())
    return JobSize((written - empty) / jobs, (packed - empty) / jobs, events, blobs=blobs / jobs)


def _complete_jobs(folder: Path, jobs: int, *, keyed: bool) -> tuple[int, int, int]:
    """Return the bytes of the file as written and as packed, and the number of events of a job."""
    with serving(data=folder) as served:
        events = asyncio.run(job_lifecycle.complete_jobs(served, jobs, keyed=keyed))
    with closing(sqlite3.connect(folder / "fleet.db")) as connection:
        written = _pages(connection)
        connection.execute("VACUUM")
        return written, _pages(connection), len(events)


def _pages(connection: sqlite3.Connection) -> int:
    [(pages, free, each)] = connection.execute(
        "SELECT p.page_count, f.freelist_count, s.page_size"
        " FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s"
    )
    return int((pages - free) * each)


def _postgres(dsn: str, jobs: int, *, keyed: bool) -> JobSize:
    with serving(dsn) as served:
        asyncio.run(job_lifecycle.complete_jobs(served, 0, keyed=keyed))
        # The first change of a page after a checkpoint logs the whole page, as in production.
        empty, logged = _query(dsn, BYTES), _query(dsn, "CHECKPOINT", WAL)
        events = asyncio.run(job_lifecycle.complete_jobs(served, jobs, keyed=keyed))
        written, completed = _query(dsn, BYTES), _query(dsn, WAL)
        asyncio.run(job_lifecycle.renew_lease(served, RENEWALS))
        renewed = _query(dsn, WAL)
    packed = _query(dsn, "VACUUM FULL", BYTES)
    return JobSize(
        (written - empty) / jobs,
        (packed - empty) / jobs,
        len(events),
        wal=(completed - logged) / jobs,
        renewal_wal=(renewed - completed) / RENEWALS,
    )


def _query(dsn: str, *statements: str) -> float:
    """Return the number that the last of these statements selects."""

    async def run() -> float:
        connection = await asyncpg.connect(dsn)
        try:
            for each in statements[:-1]:
                await connection.execute(each)
            return float(await connection.fetchval(statements[-1]))
        finally:
            await connection.close()

    return asyncio.run(run())
