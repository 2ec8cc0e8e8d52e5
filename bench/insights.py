"""Response time of insights after a thousand and after a million runs."""

import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet import API, Served, serving
from harness import Harness
from table import Row, Section, ms, verdict
from wire import Wire

from gigafactory.domain.insights.observation_tally import ObservationBatch
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.domain.insights.tally import (
    RunCounts,
    add_to_tally,
    first_try_updates,
    increment_for_run,
    sum_counts,
    tally_additions,
)
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run, Usage
from gigafactory.store.sqlite.store import SqliteStore

NOW = datetime.now(UTC).replace(microsecond=0)
DAYS = 365
CHUNK = 5000
ASKED = 50
GOAL_S = 0.1


def sections(harness: Harness) -> list[Section]:
    """Measure queries over all time and over a quarter, with few and with many runs."""
    most = 1_000_000 // harness.scale**2
    times: dict[str, list[float]] = defaultdict(list)
    for runs in (1_000, most):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(seed(Path(folder), runs))
            with serving(data=Path(folder)) as served:
                for name, query in _queries().items():
                    times[name].append(asyncio.run(response_time(served, query)))
    rows = [_grown(f"{name}, 1,000 → {most:,} runs", *pair) for name, pair in times.items()]
    return [Section("Insights", rows, note=f"Runs from {DAYS} days, on SQLite, over HTTP.")]


def _queries() -> dict[str, str]:
    quarter = (NOW - timedelta(days=90)).date()
    return {
        "by engine, profile, repo and day, all time": "by=engine,profile,repo,day",
        "by engine and repo, 90 days": f"by=engine,repo&since={quarter}",
        "by product": "by=product",
    }


def _grown(name: str, small: float, large: float) -> Row:
    goal = f"≤ {ms(GOAL_S)}"
    beside = f"{large / small:.2f} ×"
    return (name, f"{ms(small)} → {ms(large)}", beside, verdict(met=large <= GOAL_S, goal=goal))


def a_run(number: int, runs: int) -> Run:
    """Return a finished run of one of 5 engines, 8 profiles, 40 repos and 200 factories."""
    begun = NOW - timedelta(days=DAYS) * (1 - number / runs)
    return Run(
        id=f"job-{number:09}.1",
        job_id=f"job-{number:09}",
        product_id=f"product-{number % 10}",
        factory_id=f"mac-{number % 200}",
        epoch=1,
        number=1,
        step=Step.RUN,
        engine=f"engine-{number % 5}",
        granted_at=begun,
        started_at=begun,
        ended_at=begun + timedelta(minutes=5),
        result=Result.OK if number % 4 else Result.VERIFY_FAILED,
        repo=f"repo-{number % 40}",
        profile=f"role-{number % 8}@1",
        usage=Usage(tokens_in=1000, tokens_out=100, cost_nano_usd=number * 1000),
    )


async def seed(folder: Path, runs: int) -> None:
    """Fill an embedded store with finished runs and their tallies."""
    tallies: dict[str, RunCounts] = {}
    observations = ObservationBatch()
    async with SqliteStore.open(folder / "fleet.db") as store:
        for start in range(0, runs, CHUNK):
            made = [a_run(number, runs) for number in range(start, min(start + CHUNK, runs))]
            await store.commit(*(RecordChange(before=None, after=run) for run in made))
            added: defaultdict[str, list[RunCounts]] = defaultdict(list)
            for run in made:
                increment = increment_for_run(None, run)
                assert increment is not None, "every run has ended"
                for key, counts in tally_additions(increment, ()).items():
                    added[key].append(counts)
                month = increment.groups[GroupBy.DAY][:7]
                observations.add(month, first_try_updates(increment, ()))
            for key, many in added.items():
                tallies[key] = sum_counts([*many, tallies.get(key, RunCounts())])
        kept = [add_to_tally(None, key, counts) for key, counts in sorted(tallies.items())]
        writes = [RecordChange(before=None, after=tally) for tally in kept]
        writes += observations.writes({})
        for start in range(0, len(writes), CHUNK):
            await store.commit(*writes[start : start + CHUNK])


async def response_time(served: Served, query: str) -> float:
    """Return the median seconds of a response."""
    waits = []
    viewer = Wire(served.url, served.token, product="")
    for _ in range(ASKED):
        begun = time.perf_counter()
        found = await viewer.call("GET", f"{API}/insights?{query}")
        waits.append(time.perf_counter() - begun)
        assert found["total"]["runs"]
    viewer.close()
    return statistics.median(waits)
