"""DBOS on PostgreSQL: queues of durable workflows."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dbos import DBOS

SUBMITTERS = 16
QUEUE = "bench"
POLLED_EVERY_S = 0.01

listeners: list[Callable[[float], object]] = []


@DBOS.workflow()
async def noop() -> None:
    """Notify the listeners of the start time."""
    for notify in listeners:
        notify(time.perf_counter())


async def measure(dsn: str, jobs: int) -> tuple[float, float]:
    """Return jobs per second enqueued one by one by 16 tasks, and drained by one process."""
    count = jobs // SUBMITTERS * SUBMITTERS
    with _launched(dsn) as started:
        begun = time.perf_counter()
        await asyncio.gather(*(_enqueue(count // SUBMITTERS) for _ in range(SUBMITTERS)))
        enqueued = time.perf_counter()
        # Workers ignore a queue until it is registered, and start with a delay.
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLLED_EVERY_S)
        moments = [await started.get() for _ in range(count)]
    return count / (enqueued - begun), count / (max(moments) - min(moments))


async def _enqueue(count: int) -> None:
    for _ in range(count):
        await DBOS.enqueue_workflow_async(QUEUE, noop)


async def latency(dsn: str, samples: int) -> list[float]:
    """Return the seconds from the return of `enqueue` to the start, on an idle worker."""
    waits = []
    with _launched(dsn) as started:
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLLED_EVERY_S)
        for _ in range(samples + 1):
            await DBOS.enqueue_workflow_async(QUEUE, noop)
            returned = time.perf_counter()
            waits.append(max(await started.get() - returned, 0.0))
    return waits[1:]


@contextmanager
def _launched(dsn: str) -> Iterator[asyncio.Queue[float]]:
    """Run a worker on this database and yield the start times of its workflows."""
    started: asyncio.Queue[float] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Workflows run in another thread with its own event loop.
    listeners[:] = [lambda at: loop.call_soon_threadsafe(started.put_nowait, at)]
    address = dsn.replace("postgresql://", "postgresql+psycopg://")
    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})
    DBOS.launch()
    try:
        yield started
    finally:
        DBOS.destroy()
