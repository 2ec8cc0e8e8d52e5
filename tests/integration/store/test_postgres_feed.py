"""The change feed shows every commit in commit order, where a serial column would lose some."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.job.change import Stored
from gigafactory.store.postgres.store import PostgresStore
from tests.support.builders import a_job, a_step, a_submission
from tests.support.polling import until_a_query_waits_for


@asynccontextmanager
async def session(database: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "gigafactory"})
    try:
        yield connection
    finally:
        await connection.close()


async def test_serial_column_read_in_order_skips_late_commits(database: str) -> None:
    async with session(database) as slow, session(database) as quick:
        await quick.execute("CREATE TABLE public.naive (id bigserial PRIMARY KEY, who text)")
        late = slow.transaction()
        await late.start()
        await slow.execute("INSERT INTO public.naive (who) VALUES ('slow')")
        await quick.execute("INSERT INTO public.naive (who) VALUES ('quick')")
        seen = await quick.fetch("SELECT id, who FROM public.naive WHERE id > 0 ORDER BY id")
        await late.commit()
        seen += await quick.fetch("SELECT who FROM public.naive WHERE id > $1", seen[-1]["id"])
        assert [row["who"] for row in seen] == ["quick"]
        assert await quick.fetchval("SELECT count(*) FROM public.naive") == 2


async def test_commit_does_not_overtake_one_with_an_earlier_position(database: str) -> None:
    async with PostgresStore.open(database) as store, session(database) as slow:
        late = slow.transaction()
        await late.start()
        await slow.execute("UPDATE feed SET position = position + 1")
        await slow.execute(
            "INSERT INTO event VALUES (1, NULL, 0, 'notes', 'slow', 0, 'user:ann', NULL, '{}')"
        )
        quick = asyncio.create_task(store.commit(a_submission(a_job())))
        await until_a_query_waits_for(slow)
        assert await store.position() == 0
        assert await store.feed(after=0) == ()
        await late.commit()
        assert await quick == Stored(2)
        items = [entry.event.type for entry in await store.feed(after=0)]
        assert items == ["slow", "submitted"]


async def followed(store: Store, last: int) -> list[int]:
    """Follow the feed and return all positions up to the last one, in order of arrival."""
    seen: list[int] = []
    while not seen or seen[-1] < last:
        after = seen[-1] if seen else 0
        await store.wait_for_change(after)
        seen += [entry.event.position for entry in await store.feed(after=after, limit=7)]
    return seen


async def submitted(store: Store, ids: Iterable[str]) -> None:
    for id_ in ids:
        job = a_job(id=id_, name=id_)
        assert isinstance(await store.commit(a_submission(job)), Stored)
        assert isinstance(await store.commit(a_step(job)), Stored)


async def test_followers_of_all_coordinators_see_each_commit_once_in_order(
    database: str,
) -> None:
    async with PostgresStore.open(database) as one, PostgresStore.open(database) as other:
        work = [
            submitted(store, [f"{name}-{caller}-{n}" for n in range(8)])
            for store, name in ((one, "one"), (other, "other"))
            for caller in range(6)
        ]
        last = 2 * 2 * 6 * 8
        seen, seen_by_the_other, *_ = await asyncio.gather(
            followed(one, last), followed(other, last), *work
        )
        assert seen == seen_by_the_other == list(range(1, last + 1))


async def test_commit_of_another_coordinator_wakes_a_follower(database: str) -> None:
    async with PostgresStore.open(database) as one, PostgresStore.open(database) as other:
        waiting = asyncio.create_task(followed(one, 1))
        await other.commit(a_submission(a_job()))
        assert await waiting == [1]
        (entry,) = await one.feed(after=0)
        assert entry.job == a_job()
