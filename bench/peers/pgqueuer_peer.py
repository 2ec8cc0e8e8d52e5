"""PgQueuer on PostgreSQL."""

import asyncio
import time
from datetime import timedelta

import asyncpg
from pgqueuer import Queries, QueueManager
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

SUBMITTERS = 16


async def measure(dsn: str, jobs: int, *, batch_size: int = 100) -> tuple[float, float]:
    """Return jobs per second enqueued one by one by 16 tasks, and drained in batches."""
    async with asyncpg.create_pool(dsn, min_size=SUBMITTERS, max_size=20) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        await queries.install()
        begun = time.perf_counter()
        await asyncio.gather(*(_enqueue(queries, jobs // SUBMITTERS) for _ in range(SUBMITTERS)))
        enqueued = time.perf_counter()
        manager = QueueManager(queries)
        done = 0

        @manager.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal done
            done += 1

        await manager.run(
            dequeue_timeout=timedelta(seconds=1),
            batch_size=batch_size,
            mode=QueueExecutionMode.drain,
        )
        drained = time.perf_counter()
    assert done == jobs // SUBMITTERS * SUBMITTERS, done
    return done / (enqueued - begun), done / (drained - enqueued)


async def _enqueue(queries: Queries, count: int) -> None:
    for _ in range(count):
        await queries.enqueue("noop", None)


async def latency(dsn: str, samples: int) -> list[float]:
    """Return the seconds from the return of `enqueue` to the start, on an idle worker."""
    started: asyncio.Queue[float] = asyncio.Queue()
    async with asyncpg.create_pool(dsn, min_size=4, max_size=10) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        await queries.install()
        manager = QueueManager(queries)

        @manager.entrypoint("noop")
        async def noop(_job: Job) -> None:
            started.put_nowait(time.perf_counter())

        worker = asyncio.create_task(manager.run(dequeue_timeout=timedelta(seconds=30)))
        await queries.enqueue("noop", None)
        await started.get()
        waits = []
        for _ in range(samples):
            await queries.enqueue("noop", None)
            returned = time.perf_counter()
            waits.append(await started.get() - returned)
        manager.shutdown.set()
        await asyncio.gather(worker, return_exceptions=True)
    return waits
