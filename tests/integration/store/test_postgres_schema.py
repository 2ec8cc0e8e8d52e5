"""The schema of the shared store: migrations, concurrent creation, isolation and refusals."""

import asyncio

import asyncpg
import pytest

from gigafactory.domain.errors import Invalid, Unavailable
from gigafactory.store.postgres.queries import MIGRATIONS, SCHEMA, SQL
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.store.sqlite.queries import SQL as SQLITE
from tests.support.builders import a_job, a_submission

CATALOGUE = """
SELECT 'column', attrelid::regclass::text, attname::text, attnum::text,
       concat(format_type(atttypid, atttypmod), attnotnull, attcollation)
  FROM pg_attribute
  JOIN pg_class ON pg_class.oid = attrelid
 WHERE relnamespace = current_schema::regnamespace
   AND attnum > 0
UNION ALL
SELECT 'relation', relname, relkind::text, reloptions::text, ''
  FROM pg_class
 WHERE relnamespace = current_schema::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, replace(indexdef, current_schema, ''), ''
  FROM pg_indexes
 WHERE schemaname = current_schema
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), ''
  FROM pg_constraint
 WHERE connamespace = current_schema::regnamespace
UNION ALL
SELECT 'function', proname, pg_get_function_arguments(oid), prosrc, proconfig::text
  FROM pg_proc
 WHERE pronamespace = current_schema::regnamespace
UNION ALL
SELECT 'row', 'feed', position::text, '', ''
  FROM feed
 ORDER BY 1, 2, 3, 4, 5
"""


async def catalogue(database: str, schema: str, steps: tuple[str, ...]) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(database, server_settings={"search_path": schema})
    try:
        await connection.execute(f"CREATE SCHEMA {schema}")
        for step in steps:
            await connection.execute(step)
        return await connection.fetch(CATALOGUE)
    finally:
        await connection.close()


async def test_migrations_add_up_to_the_schema(database: str) -> None:
    migrated = await catalogue(database, "migrated", MIGRATIONS)
    assert len(migrated) > 100
    assert migrated == await catalogue(database, "written", (SCHEMA,))


async def test_concurrently_started_coordinators_create_the_schema_once(database: str) -> None:
    async def start() -> int:
        async with PostgresStore.open(database) as store:
            return await store.position()

    assert await asyncio.gather(*(start() for _ in range(5))) == [0] * 5


async def test_two_fleets_in_one_database_are_isolated(database: str) -> None:
    async with (
        PostgresStore.open(database, schema="blue") as blue,
        PostgresStore.open(database, schema="green") as green,
    ):
        await blue.commit(a_submission(a_job()))
        assert await green.job("job-1") is None
        assert await green.position() == 0


async def test_schema_name_that_needs_quoting_is_rejected() -> None:
    with pytest.raises(Invalid, match="expected lower-case letters"):
        async with PostgresStore.open("postgresql://localhost/fleet", schema='x"; DROP'):
            pass


async def test_database_without_utf8_encoding_is_rejected(database: str) -> None:
    connection = await asyncpg.connect(database)
    latin = f"{database.rpartition('/')[2]}_latin"
    try:
        await connection.execute(
            f"CREATE DATABASE {latin} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        )
        with pytest.raises(Unavailable, match="has encoding LATIN1"):
            async with PostgresStore.open(f"{database.rpartition('/')[0]}/{latin}"):
                pass
    finally:
        await connection.execute(f"DROP DATABASE IF EXISTS {latin} WITH (FORCE)")
        await connection.close()


def test_read_queries_have_the_same_names_in_both_databases() -> None:
    ours_alone = {"commit_batch", "lock_feed", "time"}
    assert set(SQL) - ours_alone <= set(SQLITE)
    assert ours_alone <= set(SQL)
