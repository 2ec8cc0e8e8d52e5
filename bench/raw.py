"""The databases alone: a claim with its lease in one round trip, and a synced commit of a row."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import asyncpg

CONNECTIONS = 8
SCHEMA = """
CREATE TABLE raw_job (
    id int PRIMARY KEY, stage text NOT NULL, epoch int NOT NULL, doc text NOT NULL
);
CREATE INDEX raw_queued ON raw_job (id) WHERE stage = 'queued';
CREATE TABLE raw_lease (job_id int PRIMARY KEY, factory text NOT NULL, epoch int NOT NULL);
"""
CLAIM = """
WITH next AS (
    SELECT id FROM raw_job WHERE stage = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE raw_job SET stage = 'assigned', epoch = epoch + 1
      FROM next WHERE raw_job.id = next.id RETURNING raw_job.id, raw_job.epoch
)
INSERT INTO raw_lease SELECT id, $1, epoch FROM taken RETURNING job_id
"""


async def claims(dsn: str, jobs: int) -> float:
    """Return claims per second of eight connections, one row per synced commit."""
    async with asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        await pool.execute(SCHEMA)
        await pool.execute(
            "INSERT INTO raw_job"
            " SELECT n, 'queued', 0, repeat('x', 800) FROM generate_series(1, $1) n",
            jobs,
        )
        begun = time.perf_counter()
        taken = await asyncio.gather(*(_claim(pool, f"f{n}") for n in range(CONNECTIONS)))
        assert sum(taken) == jobs
        return jobs / (time.perf_counter() - begun)


async def _claim(pool: "asyncpg.Pool[asyncpg.Record]", factory: str) -> int:
    taken = 0
    async with pool.acquire() as connection:
        while await connection.fetchval(CLAIM, factory) is not None:
            taken += 1
    return taken


def commits(file: Path, samples: int) -> list[float]:
    """Return the seconds of SQLite commits of one row, synced to the disk of this file."""
    waits = []
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        connection.execute("CREATE TABLE raw_commit (doc text NOT NULL)")
        for _ in range(samples):
            begun = time.perf_counter()
            connection.execute("INSERT INTO raw_commit VALUES (?)", ("x" * 800,))
            waits.append(time.perf_counter() - begun)
    return waits
