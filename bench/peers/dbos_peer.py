"""DBOS on PostgreSQL: its queues of durable workflows."""

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
    """Tell when it was."""
    for told in listeners:
        told(time.perf_counter())


async def measure(dsn: str, jobs: int) -> tuple[float, float]:
    """Jobs per second enqueued one by one (16 at a time), and drained by one worker process."""
    count = jobs // SUBMITTERS * SUBMITTERS
    with _launched(dsn) as started:
        begun = time.perf_counter()
        await asyncio.gather(*(_enqueue(count // SUBMITTERS) for _ in range(SUBMITTERS)))
        enqueued = time.perf_counter()
        # Nobody works on a queue before it is registered, and then not at once.
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=POLLED_EVERY_S)
        moments = [await started.get() for _ in range(count)]
    return count / (enqueued - begun), count / (max(moments) - min(moments))


async def _enqueue(count: int) -> None:
    for _ in range(count):
        await DBOS.enqueue_workflow_async(QUEUE, noop)


async def latency(dsn: str, samples: int) -> list[float]:
    """Seconds from `enqueue` returned to the workflow started, on an idle worker."""
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
    """A worker on this database, and the moments at which it started something."""
    started: asyncio.Queue[float] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Workflows run in a loop of their own, in another thread.
    listeners[:] = [lambda at: loop.call_soon_threadsafe(started.put_nowait, at)]
    address = dsn.replace("postgresql://", "postgresql+psycopg://")
    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR"})
    DBOS.launch()
    try:
        yield started
    finally:
        DBOS.destroy()
