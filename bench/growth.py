"""Whether a decision or a claim costs more as queue and fleet grow, and how much memory."""

import asyncio
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from fleet import API, Served, factories

from gigafactory.coordinator.drafts import draft
from gigafactory.domain.change import Change, Saved
from gigafactory.domain.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet import FleetView
from gigafactory.domain.job import Job
from gigafactory.domain.manifest import JobFile, Manifest
from gigafactory.domain.ready import ReadyQueue
from gigafactory.domain.scheduler import pick_job
from gigafactory.domain.submission import submit
from gigafactory.ids import RandomIds
from gigafactory.store.sqlite.store import SqliteStore

CLASSES = 200
NOW = datetime.now(UTC).replace(microsecond=0)


def a_change(ids: RandomIds, number: int) -> Change:
    """One of many queued jobs, in one of 200 classes."""
    manifest = Manifest(
        name=f"grown-{number}", engine="command", verify="true", repo=f"repo-{number % CLASSES}"
    )
    made = draft(
        JobFile(manifest, "true\n"),
        None,
        job_id=ids.new(NOW),
        product="bench",
        by="user:bench",
        now=NOW,
    )
    return submit(made.job, made.spec, (), actor="user:bench", now=NOW)


def a_factory(number: int) -> Factory:
    """One of many factories of four shapes."""
    return Factory(
        id=f"grown-{number}",
        token_id="none",
        instance_id="i",
        slots=4,
        capabilities=("os:linux", f"zone:{number % 4}"),
        engines={"command": EngineSeats(version="1", seats=4)},
        enrolled_at=NOW,
    )


def decision(jobs: int, fleet_size: int) -> float:
    """Seconds of one pull decision, the median of many."""
    ids, queue, fleet = RandomIds(), ReadyQueue(), FleetView()
    for number in range(fleet_size):
        fleet.put(a_factory(number))
        fleet.seen(f"grown-{number}", Vitals(last_seen=NOW))
    kinds: list[Job] = [a_change(ids, number).after for number in range(min(jobs, CLASSES))]
    for number in range(jobs):
        kind = kinds[number % len(kinds)]
        queue.put(msgspec.structs.replace(kind, id=ids.new(NOW)))
    waits = []
    for number in range(200):
        begun = time.perf_counter()
        assert pick_job(queue, fleet, f"grown-{number % fleet_size}", now=NOW) is not None
        waits.append(time.perf_counter() - begun)
    return statistics.median(waits)


async def seed(folder: Path, jobs: int, fleet_size: int) -> None:
    """Fill an embedded store with queued jobs and factories."""
    ids = RandomIds()
    async with SqliteStore.open(folder / "fleet.db") as store:
        for start in range(0, fleet_size, 500):
            made = range(start, min(start + 500, fleet_size))
            await store.commit(*(Saved(before=None, after=a_factory(n)) for n in made))
        for start in range(0, jobs, 500):
            made = range(start, min(start + 500, jobs))
            await store.commit(*(a_change(ids, n) for n in made))


async def claim(served: Served, samples: int) -> float:
    """Seconds of one claim over HTTP, the median of many."""
    waits = []
    async with factories(served, 1, slots=samples + 1, prefix=f"g{time.monotonic_ns()}x") as fleet:
        [(name, connection)] = fleet.items()
        for _ in range(samples):
            begun = time.perf_counter()
            grant = await connection.call("POST", f"{API}/claim", {"factoryId": name})
            waits.append(time.perf_counter() - begun)
            assert grant is not None
    return statistics.median(waits)


def resident_mb(pid: int) -> float:
    """The resident memory of a process, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def seeded(folder: Path, jobs: int, fleet_size: int) -> None:
    asyncio.run(seed(folder, jobs, fleet_size))
