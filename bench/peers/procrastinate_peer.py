"""Procrastinate on PostgreSQL."""

import asyncio
import time

from procrastinate import App, PsycopgConnector

SUBMITTERS = 16


async def measure(dsn: str, jobs: int) -> tuple[float, float]:
    """Return jobs per second enqueued one by one by 16 tasks, and drained by one process."""
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=20))
    done = 0

    @app.task(name="noop")
    async def noop() -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        begun = time.perf_counter()
        await asyncio.gather(*(_defer(noop, jobs // SUBMITTERS) for _ in range(SUBMITTERS)))
        deferred = time.perf_counter()
        await app.run_worker_async(concurrency=16, wait=False, install_signal_handlers=False)
        drained = time.perf_counter()
    assert done == jobs // SUBMITTERS * SUBMITTERS, done
    return done / (deferred - begun), done / (drained - deferred)


async def _defer(task: object, count: int) -> None:
    for _ in range(count):
        await task.defer_async()  # type: ignore[attr-defined]


async def latency(dsn: str, samples: int) -> list[float]:
    """Return the seconds from the return of `defer` to the start, on an idle worker."""
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=2, max_size=10))
    started: asyncio.Queue[float] = asyncio.Queue()

    @app.task(name="noop")
    async def noop() -> None:
        started.put_nowait(time.perf_counter())

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(install_signal_handlers=False))
        await noop.defer_async()
        await started.get()
        waits = []
        for _ in range(samples):
            await noop.defer_async()
            returned = time.perf_counter()
            waits.append(await started.get() - returned)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return waits
