"""Time until work goes on after the coordinator is killed or a factory is lost."""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

import growth
from fleet import API, Served, a_job, factories, serving
from harness import Harness
from table import Section, verdict
from wire import wire

TTL_S = 3.0
SHORT_LEASE = {"AQ_LEASE_TTL": str(TTL_S), "AQ_FLEET_LEASE_RENEW_SEC": "1"}
QUEUED = 10_000


def sections(harness: Harness) -> list[Section]:
    """Measure the loss of the coordinator and of a factory."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(growth.seed(Path(folder), QUEUED, 10))
        figures = harness.in_turn(
            {"killed": lambda: (_after_kill(Path(folder)),), "gone": lambda: (_after_loss(),)}
        )
    [killed], [again] = figures["killed"], figures["gone"]
    rows = [
        (
            f"coordinator SIGKILLed with {QUEUED:,} queued jobs → first grant",
            f"{killed:.2f} s",
            "",
            verdict(met=killed <= 3, goal="≤ 3 s"),
        ),
        (
            "factory lost → its job granted to another",
            f"{again:.2f} s",
            f"lease TTL {TTL_S:.0f} s, granted {again - TTL_S:.2f} s after it",
            verdict(met=again <= TTL_S + 5, goal="≤ TTL + 5 s"),
        ),
    ]
    return [Section("Recovery", rows)]


def _after_kill(folder: Path) -> float:
    with serving(data=folder) as served:
        os.kill(served.pid, signal.SIGKILL)
        killed = time.perf_counter()
    with serving(data=folder) as served:
        asyncio.run(growth.claim(served, 1))
        return time.perf_counter() - killed


def _after_loss() -> float:
    # A new coordinator per round: the lease of the previous round would expire during this one.
    with serving(settings=SHORT_LEASE) as served:
        return asyncio.run(_time_to_regrant(served))


async def _time_to_regrant(served: Served) -> float:
    """Return the seconds from the last request of a lost factory to the next lease of its job."""
    mark = f"v{time.monotonic_ns()}x"
    async with (
        wire(served.url, served.token) as people,
        factories(served, 2, slots=1, prefix=mark) as fleet,
    ):
        (gone, its), (other, waiting) = fleet.items()
        made = await people.call("POST", f"{API}/jobs", a_job(mark))
        grant = await its.call("POST", f"{API}/claim", {"factoryId": gone})
        assert grant["job"]["id"] == made["id"]
        last_request = time.perf_counter()
        its.close()
        asked = {"factoryId": other, "wait": 30}
        again = await waiting.call("POST", f"{API}/claim", asked)
        assert again["job"]["id"] == made["id"]
        return time.perf_counter() - last_request
