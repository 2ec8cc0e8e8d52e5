"""Huey on SQLite, with every write synced."""

import threading
import time
from pathlib import Path

from huey import SqliteHuey

WORKERS = 16


def measure(folder: Path, jobs: int) -> tuple[float, float]:
    """Return jobs per second enqueued one by one, and drained by 16 worker threads."""
    huey = SqliteHuey(filename=str(folder / "huey.db"), fsync=True, results=False)
    done = 0
    all_done = threading.Event()
    lock = threading.Lock()

    @huey.task()
    def noop() -> None:
        nonlocal done
        with lock:
            done += 1
        if done == jobs:
            all_done.set()

    begun = time.perf_counter()
    for _ in range(jobs):
        noop()
    enqueued = time.perf_counter()
    consumer = huey.create_consumer(
        workers=WORKERS, periodic=False, initial_delay=0.01, max_delay=0.05
    )
    consumer.start()
    all_done.wait(120)
    drained = time.perf_counter()
    consumer.stop(graceful=True)
    assert done == jobs, done
    return jobs / (enqueued - begun), jobs / (drained - enqueued)
