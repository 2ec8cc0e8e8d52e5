"""The shared store while its database is unavailable, and afterwards."""

import asyncio

import asyncpg
import pytest

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import Stored
from gigafactory.store.postgres.store import PostgresStore
from tests.services.postgres import Server
from tests.support.builders import a_job, a_step, a_submission
from tests.support.polling import until_a_query_waits_for

JOB = a_job()
LOCK = "SELECT position FROM gigafactory.feed FOR UPDATE"


async def stored(store: PostgresStore, job_id: str) -> None:
    """Store a job; retry while the database is unavailable."""
    while True:
        try:
            verdict = await store.commit(a_submission(a_job(id=job_id, name=job_id)))
        except Unavailable:
            continue
        assert isinstance(verdict, Stored)
        return


async def test_stopped_database_is_unavailable(private_postgres: Server) -> None:
    dsn = private_postgres.dsn()
    private_postgres.stop()
    with pytest.raises(Unavailable, match=r"the database at 127\.0\.0\.1:.* is unavailable"):
        async with PostgresStore.open(dsn):
            pass


async def test_missing_database_is_named(database: str) -> None:
    with pytest.raises(Unavailable, match='database "nowhere" does not exist'):
        async with PostgresStore.open(f"{database.rpartition('/')[0]}/nowhere"):
            pass


async def test_a_commit_during_a_server_crash_has_an_unknown_result(
    private_postgres: Server,
) -> None:
    async with PostgresStore.open(private_postgres.dsn()) as store:
        await store.commit(a_submission(JOB))
        blocker = await asyncpg.connect(private_postgres.dsn())
        await blocker.execute("BEGIN")
        await blocker.execute(LOCK)
        waiting = [asyncio.create_task(store.commit(a_step(JOB))) for _ in range(3)]
        await until_a_query_waits_for(blocker)
        private_postgres.stop("immediate")
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        with pytest.raises(Unavailable):
            await store.job(JOB.id)
        private_postgres.start()
        await stored(store, "job-2")
        assert await store.job(JOB.id) == JOB
        blocker.terminate()


async def test_read_succeeds_across_a_server_restart(
    private_postgres: Server,
) -> None:
    async with PostgresStore.open(private_postgres.dsn()) as store:
        await store.commit(a_submission(JOB))
        assert await store.job(JOB.id) == JOB
        private_postgres.restart()
        assert await store.job(JOB.id) == JOB


async def test_change_feed_resumes_after_an_outage(
    private_postgres: Server,
) -> None:
    dsn = private_postgres.dsn()
    async with PostgresStore.open(dsn) as one, PostgresStore.open(dsn) as other:
        private_postgres.restart("immediate")
        await stored(other, "job-1")
        while not (seen := await one.feed(after=0)):
            await one.wait_for_change(0)
        assert [entry.event.job_id for entry in seen] == ["job-1"]


async def test_closed_store_is_unavailable(database: str) -> None:
    async with PostgresStore.open(database) as store:
        pass
    with pytest.raises(Unavailable, match="is closed"):
        await store.commit(a_submission(JOB))
    with pytest.raises(Unavailable, match="is closed"):
        await store.job("job-1")


async def test_a_cancelled_read_does_not_disturb_others(database: str) -> None:
    async with PostgresStore.open(database) as store:
        await store.commit(a_submission(JOB))
        blocker = await asyncpg.connect(database)
        await blocker.execute("BEGIN")
        await blocker.execute("LOCK TABLE gigafactory.job")
        leaving = [asyncio.create_task(store.job(JOB.id)) for _ in range(9)]
        await until_a_query_waits_for(blocker)
        for reader in leaving:
            reader.cancel()
        await asyncio.wait(leaving)
        await blocker.close()
        assert await store.job(JOB.id) == JOB
