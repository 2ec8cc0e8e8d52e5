"""Cost of a scheduling decision, a claim and memory as queue and fleet grow."""

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from fleet import API, Served, factories, serving
from harness import Harness
from table import Row, Section, ms, verdict

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures
from gigafactory.domain.insights.routing_model import fit_model
from gigafactory.domain.insights.routing_rollout import (
    EXPLORED,
    ON_SHARE,
    RolloutMode,
    RoutingRollout,
)
from gigafactory.domain.job.change import JobChange, RecordChange
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.manifest import JobFile, Manifest
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.scheduler import pick_jobs
from gigafactory.domain.submission.draft import draft
from gigafactory.domain.submission.submission import submit
from gigafactory.store.sqlite.store import SqliteStore
from gigafactory.system.ids import RandomIds

CLASSES = 200
AGENTS = {name: EngineSeats(version="1", seats=4) for name in ("claude", "codex")}
NOW = datetime.now(UTC).replace(microsecond=0)


def sections(harness: Harness) -> list[Section]:
    """Measure a decision and a claim with a short and a long queue, and memory with the long."""
    most, stored = 1_000_000 // harness.scale**2, 100_000 // harness.scale
    decisions = (decision(1_000, 10), decision(most, 1_000))
    learned = (decision(1_000, 10, learned=True), decision(most, 1_000, learned=True))
    claims, memory = [], 0.0
    for jobs, fleet_size in ((1_000, 10), (stored, 1_000)):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(seed(Path(folder), jobs, fleet_size))
            with serving(data=Path(folder)) as served:
                claims.append(asyncio.run(claim(served, 100)))
                memory = resident_mb(served.pid)
    rows = [
        _grown(f"one decision, {_steps(most)}", *decisions),
        _grown(f"one decision with learned routing, {_steps(most)}", *learned),
        _grown(f"one claim over HTTP, {_steps(stored)}", *claims),
        (
            f"memory with {stored:,} queued jobs and 1,000 factories",
            f"{memory:.0f} MB",
            "",
            verdict(met=memory <= 400, goal="≤ 400 MB"),
        ),
    ]
    return [Section("Growth and memory", rows)]


def _steps(most: int) -> str:
    return f"1,000 queued and 10 factories → {most:,} and 1,000"


def _grown(name: str, small: float, large: float) -> Row:
    ratio = large / small
    return (
        name,
        f"{ms(small)} → {ms(large)}",
        f"{ratio:.2f} ×",
        verdict(met=ratio <= 2, goal="≤ 2 ×"),
    )


def a_change(ids: RandomIds, number: int) -> JobChange:
    """Return the submit of a queued job in one of 200 job classes."""
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
    """Return a factory with one of four sets of capabilities."""
    return Factory(
        id=f"grown-{number}",
        token_id="none",
        instance_id="i",
        slots=4,
        capabilities=("os:linux", f"zone:{number % 4}"),
        engines={"command": EngineSeats(version="1", seats=4)},
        enrolled_at=NOW,
    )


def decision(jobs: int, fleet_size: int, *, learned: bool = False) -> float:
    """Return the median seconds of a pull decision."""
    ids, queue, fleet = RandomIds(), ReadyQueue(), FleetState()
    for number in range(fleet_size):
        machine = a_factory(number)
        fleet.put(msgspec.structs.replace(machine, engines=AGENTS) if learned else machine)
        fleet.record_vitals(f"grown-{number}", Vitals(last_seen=NOW))
    kinds: list[Job] = [a_change(ids, number).after for number in range(min(jobs, CLASSES))]
    if learned:
        add_observations(fleet)
        free = [msgspec.structs.replace(kind.ask, engine=None) for kind in kinds]
        kinds = [
            msgspec.structs.replace(kind, ask=ask) for kind, ask in zip(kinds, free, strict=True)
        ]
    for number in range(jobs):
        kind = kinds[number % len(kinds)]
        queue.put(msgspec.structs.replace(kind, id=ids.new(NOW)))
    waits = []
    for number in range(200):
        begun = time.perf_counter()
        assert next(pick_jobs(queue, fleet, f"grown-{number % fleet_size}", now=NOW))
        waits.append(time.perf_counter() - begun)
    return statistics.median(waits)


def add_observations(fleet: FleetState) -> None:
    """Add observations of both engines for every repo, and turn learned routing on."""
    cells = {
        Cell(
            TaskFeatures("bench", f"repo-{number}"), RoutingChoice(engine, "grown-1", "m")
        ): Observation(tries=50, passes=passes)
        for number in range(CLASSES)
        for engine, passes in (("claude", 40), ("codex", 30 + number % 20))
    }
    fleet.predictor.use_model(fit_model(cells.items()), cells.items())
    fleet.predictor.put(
        RoutingRollout(product_id="bench", mode=RolloutMode.ON, share=ON_SHARE, explore=EXPLORED)
    )


async def seed(folder: Path, jobs: int, fleet_size: int) -> None:
    """Fill an embedded store with queued jobs and factories."""
    ids = RandomIds()
    async with SqliteStore.open(folder / "fleet.db") as store:
        for start in range(0, fleet_size, 500):
            made = range(start, min(start + 500, fleet_size))
            await store.commit(*(RecordChange(before=None, after=a_factory(n)) for n in made))
        for start in range(0, jobs, 500):
            made = range(start, min(start + 500, jobs))
            await store.commit(*(a_change(ids, n) for n in made))


async def claim(served: Served, samples: int) -> float:
    """Return the median seconds of a claim over HTTP."""
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
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000
