"""Time from an acknowledged submit to the lease of a factory, on an idle fleet of ten."""

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import raw
from fleet import API, Served, a_job, factories, serving
from harness import Harness
from peers import dbos_peer, pgqueuer_peer, procrastinate_peer
from table import Section, ms, percentile, verdict
from wire import Wire, wire

PEERS = {"PgQueuer": pgqueuer_peer, "Procrastinate": procrastinate_peer, "DBOS": dbos_peer}


def sections(harness: Harness) -> list[Section]:
    """Measure Gigafactory, its bound and the peers in the same run.

    Every round measures all of them, so that a slow minute of the machine affects them all.
    """
    samples = 200 // harness.scale
    trips, commits, waits = [], [], []
    theirs: dict[str, list[float]] = {name: [] for name in PEERS}
    for _ in range(harness.rounds):
        # Commits are measured on the disk of the store, before and after: disk speed varies.
        with tempfile.TemporaryDirectory() as made, serving(data=Path(made)) as served:
            commits += raw.commits(Path(made) / "before.db", 200)
            trips += asyncio.run(round_trip(served, 300))
            waits += asyncio.run(dispatch(served, samples))
            commits += raw.commits(Path(made) / "after.db", 200)
        for name, module in PEERS.items():
            theirs[name] += asyncio.run(module.latency(harness.database(), samples))
    trip, commit, ours = median(trips), median(commits), median(waits)
    bound = 2 * trip + 2 * commit
    goal = f"p50 ≤ 2 × one HTTP round trip + two commits = {ms(bound)}"
    beside = f"HTTP round trip {ms(trip)}, synced commit {ms(commit)}"
    judged = f"{verdict(met=ours <= bound, goal=goal)}; measured {ours / bound:.1f} ×"
    rows = [("submit acknowledged → leased, p50 / p99", _pair(waits), beside, judged)]
    for name, found in theirs.items():
        judged = verdict(met=ours < median(found), goal="Gigafactory is faster")
        rows.append((f"{name}: enqueue returned → started, p50 / p99", _pair(found), "", judged))
    note = (
        "A peer's job starts in the process that waits for it. A Gigafactory job goes to another"
        " process over HTTP: an offer and its acceptance, each with a commit."
    )
    return [Section("Dispatch latency", rows, note)]


def _pair(waits: list[float]) -> str:
    ordered = sorted(waits)
    return f"{ms(percentile(ordered, 0.5))} / {ms(percentile(ordered, 0.99))}"


async def dispatch(served: Served, samples: int) -> list[float]:
    """Return the seconds from the response of `POST /jobs` to that of `POST /accept`."""
    leased: asyncio.Queue[float] = asyncio.Queue()
    waits: list[float] = []
    async with factories(served, 10, slots=1000, prefix=f"l{time.monotonic_ns()}x") as fleet:
        listeners = [asyncio.create_task(_accept(one, name, leased)) for name, one in fleet.items()]
        async with wire(served.url, served.token) as people:
            await _wait_for_streams(people, list(fleet))
            for number in range(samples + 1):
                job = a_job(f"latency-{time.monotonic_ns()}-{number}")
                await people.call("POST", f"{API}/jobs", job)
                acknowledged = time.perf_counter()
                waits.append(await leased.get() - acknowledged)
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
    return waits[1:]


async def _wait_for_streams(people: Wire, names: list[str]) -> None:
    """Wait until the coordinator reports all streams as open."""
    while True:
        page = await people.call("GET", f"{API}/factories")
        known = {f["id"]: f for f in page["factories"]}
        if all(known[name].get("streaming") for name in names):
            return
        await asyncio.sleep(0.02)


async def _accept(connection: Wire, name: str, leased: asyncio.Queue[float]) -> None:
    stream = connection.twin()
    async for line in stream.lines(f"{API}/factories/{name}/offers"):
        if not line.startswith(b"data:"):
            continue
        offer: dict[str, Any] = msgspec.json.decode(line[5:])
        if "offerId" not in offer:
            continue
        accepted = {"factoryId": name, "jobId": offer["jobId"], "offerId": offer["offerId"]}
        grant = await connection.call("POST", f"{API}/accept", accepted)
        leased_at = time.perf_counter()
        job = f"{API}/jobs/{grant['job']['id']}"
        await connection.call(
            "PATCH", job, {"leaseEpoch": grant["leaseEpoch"], "stage": "building"}
        )
        # Only now: the next job has to find an idle fleet.
        leased.put_nowait(leased_at)


async def round_trip(served: Served, samples: int) -> list[float]:
    """Return the seconds of each bare HTTP request."""
    waits = []
    async with wire(served.url, served.token) as people:
        for _ in range(samples):
            begun = time.perf_counter()
            await people.raw("GET", "/healthz")
            waits.append(time.perf_counter() - begun)
    return waits
