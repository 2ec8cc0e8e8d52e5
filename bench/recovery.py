"""How long work stands still: after the coordinator is killed, and after a factory is gone."""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

import growth
from fleet import API, Served, a_job, factories, serving
from ground import Ground
from table import Section, verdict
from wire import wire

TTL_S = 3.0
DEAD = {"AQ_LEASE_TTL": str(TTL_S), "AQ_FLEET_LEASE_RENEW_SEC": "1"}
QUEUED = 10_000


def sections(ground: Ground) -> list[Section]:
    """Both ways to lose somebody."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(growth.seed(Path(folder), QUEUED, 10))
        figures = ground.in_turn(
            {"killed": lambda: (_killed(Path(folder)),), "gone": lambda: (_gone(),)}
        )
    [killed], [again] = figures["killed"], figures["gone"]
    rows = [
        (
            f"coordinator SIGKILLed with {QUEUED:,} queued → first grant",
            f"{killed:.2f} s",
            "",
            verdict(met=killed <= 3, goal="≤ 3 s"),
        ),
        (
            "factory gone → its job granted to another",
            f"{again:.2f} s",
            f"lease TTL {TTL_S:.0f} s, so {again - TTL_S:.2f} s after its end",
            verdict(met=again <= TTL_S + 5, goal="≤ TTL + 5 s"),
        ),
    ]
    return [Section("Recovery", rows)]


def _killed(folder: Path) -> float:
    with serving(data=folder) as served:
        os.kill(served.pid, signal.SIGKILL)
        killed = time.perf_counter()
    with serving(data=folder) as served:
        asyncio.run(growth.claim(served, 1))
        return time.perf_counter() - killed


def _gone() -> float:
    # Each time on a new coordinator: the lease of the last round would run out into this one.
    with serving(settings=DEAD) as served:
        return asyncio.run(_vanished(served))


async def _vanished(served: Served) -> float:
    """Seconds from the last word of a factory that holds a job to another one's lease of it."""
    mark = f"v{time.monotonic_ns()}x"
    async with (
        wire(served.url, served.token) as people,
        factories(served, 2, slots=1, prefix=mark) as fleet,
    ):
        (gone, its), (other, waiting) = fleet.items()
        made = await people.call("POST", f"{API}/jobs", a_job(mark))
        grant = await its.call("POST", f"{API}/claim", {"factoryId": gone})
        assert grant["job"]["id"] == made["id"]
        last_word = time.perf_counter()
        its.close()
        asked = {"factoryId": other, "wait": 30}
        again = await waiting.call("POST", f"{API}/claim", asked)
        assert again["job"]["id"] == made["id"]
        return time.perf_counter() - last_word
