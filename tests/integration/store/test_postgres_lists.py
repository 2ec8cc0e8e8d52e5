"""Every list of jobs uses an index: it reads only a few more jobs than it returns."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.job.job import Priority, Stage
from gigafactory.store.postgres.job_query import SCANNED_JOBS, statements_for
from gigafactory.store.postgres.store import FINDER_SETTINGS, PostgresStore

JOBS = 20_000
LATE = 15
"""The index of a statement's value for text that it filters after reading the jobs."""
FILL = """
CREATE TEMPORARY TABLE made AS
SELECT 'job-' || lpad(n::text, 8, '0') AS id, n
  FROM generate_series(1, $1::int) AS n;
"""
TABLES = (
    "INSERT INTO job SELECT id, 1, 1, '{}' FROM made",
    """
    INSERT INTO standing
    SELECT id, 'product-' || n % 10, (ARRAY['queued', 'shipped', 'failed'])[1 + n % 3],
           'engine-' || n % 50
      FROM made
    """,
    """
    INSERT INTO listing
    SELECT id, 'product-' || n % 10, 'name-' || n, (ARRAY['low', 'medium', 'high'])[1 + n % 3],
           'repo-' || n % 50, 'profile-' || n % 50, 'job-' || n % 500
      FROM made
    """,
    "INSERT INTO search SELECT id, array_to_tsvector(ARRAY['common', 'word' || n]) FROM made",
    "INSERT INTO lease SELECT id, 1, 'mac-' || n % 1000, true, n FROM made WHERE n % 10 = 1",
    "ANALYZE",
)
QUERIES = {
    "everything": JobQuery(),
    "oldest first": JobQuery(oldest_first=True),
    "a later page": JobQuery(after="job-00010000", products=("product-1",)),
    "product": JobQuery(products=("product-1",)),
    "products": JobQuery(products=("product-1", "product-2", "product-3")),
    "stage": JobQuery(stages=(Stage.QUEUED,)),
    "no such stage": JobQuery(stages=(Stage.BLOCKED,)),
    "stages of products": JobQuery(
        products=("product-1", "product-2"), stages=(Stage.BLOCKED, Stage.QUEUED)
    ),
    "name": JobQuery(name="name-7"),
    "repo": JobQuery(repo="repo-7"),
    "later page of a repo": JobQuery(repo="repo-7", after="job-00010000"),
    "profile": JobQuery(profile="profile-7"),
    "engine": JobQuery(engine="engine-7"),
    "factory": JobQuery(factory_id="mac-1"),
    "priority": JobQuery(priority=Priority.LOW),
    "no such priority": JobQuery(priority=Priority.CRITICAL),
    "priority of a product": JobQuery(priority=Priority.CRITICAL, products=("product-1",)),
    "priority in a stage": JobQuery(priority=Priority.LOW, stages=(Stage.QUEUED,)),
    "parent": JobQuery(parent_id="job-7"),
    "rare word": JobQuery(text="word777"),
    "common word": JobQuery(text="comm"),
    "no such word": JobQuery(text="zebra", products=("product-1",)),
}


def touched(plan: dict[str, Any]) -> int:
    """Return the number of rows that a node of a query plan and all nodes below it have read."""
    rows = 0
    if "Relation Name" in plan or "Index Name" in plan:
        seen = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        rows = seen * plan["Actual Loops"]
    return rows + sum(touched(below) for below in plan.get("Plans", ()))


@pytest.fixture
async def connection(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    async with PostgresStore.open(database):
        settings = {"search_path": "gigafactory", **FINDER_SETTINGS}
        connection = await asyncpg.connect(database, server_settings=settings)
        await connection.execute(FILL.replace("$1", str(JOBS)))
        for table in TABLES:
            await connection.execute(table)
        yield connection
        await connection.close()


async def test_every_list_query_touches_few_more_jobs_than_it_returns(
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    for name, query in QUERIES.items():
        for statement, values in statements_for(query):
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
            [(text,)] = await connection.fetch(explained, *values)
            (result,) = msgspec.json.decode(text)
            looked_at = SCANNED_JOBS if values[LATE] else query.limit
            assert isinstance(values[0], list)
            ways = len(values[0])
            assert touched(result["Plan"]) <= (ways + 8) * looked_at, f"{name}: {text}"
            if len(await connection.fetch(statement, *values)) == query.limit:
                break
