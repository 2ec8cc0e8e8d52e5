"""How much room a job takes, in each store and among the blobs; and the sheet that follows."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import capacity
import life
from fleet import serving
from ground import Ground
from table import Row, Section
from table import size as shown

BYTES = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE n.nspname = 'gigafactory' AND c.relkind = 'r'"
)
RENEWALS = 200
WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"


@dataclass(frozen=True)
class Room:
    """Bytes that each of many jobs took, and the events that one had."""

    written: float
    packed: float
    events: int
    blobs: float = 0.0
    wal: float = 0.0
    renewal_wal: float = 0.0


def sections(ground: Ground) -> list[Section]:
    """The room for a job, without and with the answers that are kept for repeated requests."""
    jobs = 160 // ground.scale
    sqlite, sqlite_keyed = (_sqlite(jobs, keyed=keyed) for keyed in (False, True))
    postgres, postgres_keyed = (
        _postgres(ground.database(), jobs, keyed=keyed) for keyed in (False, True)
    )
    log = life.LOG_CHUNKS * len(life.LOG)
    beside = f"of {shown(log)} of log, in {life.LOG_CHUNKS} chunks"
    rows = [
        *_rows("SQLite", sqlite, sqlite_keyed),
        *_rows("PostgreSQL", postgres, postgres_keyed),
        (
            "PostgreSQL: the WAL of a job",
            shown(postgres_keyed.wal),
            f"and {shown(postgres_keyed.renewal_wal)} for each renewal",
            "",
        ),
        ("blobs of a job", shown(sqlite.blobs), beside, ""),
    ]
    note = (
        f"From submit to shipped, with a body of {shown(len(life.BODY))}: {life.REQUESTS} requests"
        f" and {sqlite.events} events; the mean of {jobs} jobs. *Packed* is after a full VACUUM,"
        "\n*written* before it. Every answer to a request with an `Idempotency-Key` is kept for a"
        " day."
    )
    sheet = capacity.sheet(
        capacity.Bytes(sqlite.written, sqlite_keyed.written - sqlite.written),
        capacity.Bytes(postgres.written, postgres_keyed.written - postgres.written),
        postgres_keyed.wal + postgres_keyed.renewal_wal * capacity.RENEWALS,
    )
    return [Section("Size", rows, note), sheet]


def _rows(store: str, plain: Room, keyed: Room) -> list[Row]:
    return [
        (f"{store}: a job, written", shown(plain.written), f"packed {shown(plain.packed)}", ""),
        (
            f"{store}: its answers, for a day",
            shown(keyed.written - plain.written),
            f"packed {shown(keyed.packed - plain.packed)}",
            "",
        ),
    ]


def _sqlite(jobs: int, *, keyed: bool) -> Room:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        empty, _, _ = _lived(folder, 0, keyed=keyed)
        written, packed, events = _lived(folder, jobs, keyed=keyed)
        blobs = sum(f.stat().st_size for f in (folder / "blobs").rglob("*") if f.is_file())
    return Room((written - empty) / jobs, (packed - empty) / jobs, events, blobs=blobs / jobs)


def _lived(folder: Path, jobs: int, *, keyed: bool) -> tuple[int, int, int]:
    """The bytes of the file after so many jobs, as written and as packed; the events of one."""
    with serving(data=folder) as served:
        story = asyncio.run(life.live(served, jobs, keyed=keyed))
    with closing(sqlite3.connect(folder / "fleet.db")) as connection:
        written = _pages(connection)
        connection.execute("VACUUM")
        return written, _pages(connection), len(story)


def _pages(connection: sqlite3.Connection) -> int:
    [(pages, free, each)] = connection.execute(
        "SELECT p.page_count, f.freelist_count, s.page_size"
        " FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s"
    )
    return int((pages - free) * each)


def _postgres(dsn: str, jobs: int, *, keyed: bool) -> Room:
    with serving(dsn) as served:
        asyncio.run(life.live(served, 0, keyed=keyed))
        # Checkpoints come and go in real life: after each, pages are logged whole at first.
        empty, logged = _asked(dsn, BYTES), _asked(dsn, "CHECKPOINT", WAL)
        story = asyncio.run(life.live(served, jobs, keyed=keyed))
        written, lived = _asked(dsn, BYTES), _asked(dsn, WAL)
        asyncio.run(life.renew(served, RENEWALS))
        renewed = _asked(dsn, WAL)
    packed = _asked(dsn, "VACUUM FULL", BYTES)
    return Room(
        (written - empty) / jobs,
        (packed - empty) / jobs,
        len(story),
        wal=(lived - logged) / jobs,
        renewal_wal=(renewed - lived) / RENEWALS,
    )


def _asked(dsn: str, *questions: str) -> float:
    """The one number that the last of these statements gives."""

    async def ask() -> float:
        connection = await asyncpg.connect(dsn)
        try:
            for each in questions[:-1]:
                await connection.execute(each)
            return float(await connection.fetchval(questions[-1]))
        finally:
            await connection.close()

    return asyncio.run(ask())
