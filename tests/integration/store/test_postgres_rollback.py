"""A database that lost committed history, for example after a fail-over to an older standby."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from gigafactory.coordinator.coordinator import INDEX_EVERY_S
from gigafactory.coordinator.core.ports import Store
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import Stored
from gigafactory.store.postgres import listener
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.loops import run_every, run_in_background
from tests.support.builders import a_job, a_submission

NOTICED_WITHIN_S = 20.0
GO_BACK = """
DELETE FROM gigafactory.hold WHERE job_id <> 'job-1';
DELETE FROM gigafactory.spec WHERE job_id <> 'job-1';
DELETE FROM gigafactory.event WHERE position > 1;
DELETE FROM gigafactory.job WHERE id <> 'job-1';
UPDATE gigafactory.feed SET position = 1;
"""
END_CONNECTIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def submit(store: Store, *ids: str) -> None:
    for job_id in ids:
        verdict = await store.commit(a_submission(a_job(id=job_id, name=job_id)))
        assert isinstance(verdict, Stored)


async def test_a_coordinator_reads_everything_again_after_the_database_went_back(
    database: str,
) -> None:
    async with PostgresStore.open(database) as store:
        index = Index(store, SystemClock(), fleet_seats={})
        await index.load()
        reloads = 0

        async def reloaded() -> None:
            nonlocal reloads
            reloads += 1

        index.on_reload(reloaded)
        await submit(store, "job-1", "job-2", "job-3", "job-4")
        loop = run_every(INDEX_EVERY_S, index.catch_up, name="index", wake=index.wait_for_feed)
        async with run_in_background(loop), asyncio.timeout(NOTICED_WITHIN_S):
            while index.position < 4:
                await index.wait_for_update()
            server = await asyncpg.connect(database)
            await server.execute(GO_BACK)
            await server.close()
            while not reloads:
                await index.wait_for_update()
            assert (store.rollbacks, index.rollbacks, index.position) == (1, 1, 1)
            assert index.queue.find("job-1") is not None
            assert index.queue.find("job-4") is None
            await submit(store, "job-5")
            while index.position < 2:
                await index.wait_for_update()
            assert index.queue.find("job-5") is not None
        assert reloads == 1


async def test_another_history_of_the_same_length_is_noticed_after_a_fail_over(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore.open(database) as store:
        await submit(store, "job-1", "job-2", "job-3")
        server = await asyncpg.connect(database)
        await server.execute(GO_BACK)
        async with PostgresStore.open(database) as other:
            await submit(other, "job-8", "job-9")
        await server.execute(END_CONNECTIONS)
        await server.close()
        async with asyncio.timeout(NOTICED_WITHIN_S):
            while not store.rollbacks:
                await store.wait_for_change(3)
        assert [entry.event.job_id for entry in await store.feed(after=0)] == [
            "job-1",
            "job-8",
            "job-9",
        ]


async def test_another_history_is_noticed_before_anything_is_written_to_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with PostgresStore.open(database) as store:
        await submit(store, "job-1", "job-2", "job-3")
        # The writers connect before the listener does.
        monkeypatch.setattr(listener, "RETRY_S", 60.0)
        server = await asyncpg.connect(database)
        await server.execute(GO_BACK)
        async with PostgresStore.open(database) as other:
            await submit(other, *(f"job-{number}" for number in range(4, 9)))
        await server.execute(END_CONNECTIONS)
        await server.close()
        while True:
            with suppress(Unavailable):
                await submit(store, "job-9")
                break
        assert store.rollbacks == 1
        assert len(await store.feed(after=0)) == 7


async def test_a_restarted_server_with_the_same_history_is_no_loss(database: str) -> None:
    async with PostgresStore.open(database) as store:
        await submit(store, "job-1", "job-2")
        server = await asyncpg.connect(database)
        await server.execute(END_CONNECTIONS)
        await server.close()
        while True:
            with suppress(Unavailable):
                await submit(store, "job-3")
                break
        assert store.rollbacks == 0
