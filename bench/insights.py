"""Whether insights answer as quickly after a million runs as after a thousand."""

import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet import API, Served, serving
from ground import Ground
from table import Row, Section, ms, verdict
from wire import Wire

from gigafactory.domain.insights.tally import (
    RunCounts,
    add_to_tally,
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


def sections(ground: Ground) -> list[Section]:
    """One answer over HTTP, of all time and of a quarter, from few runs to many."""
    most = 1_000_000 // ground.scale**2
    told: dict[str, list[float]] = defaultdict(list)
    for runs in (1_000, most):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(seed(Path(folder), runs))
            with serving(data=Path(folder)) as served:
                for name, query in _questions().items():
                    told[name].append(asyncio.run(asked(served, query)))
    rows = [_grown(f"{name}, 1,000 → {most:,} runs", *times) for name, times in told.items()]
    return [Section("Insights", rows, note=f"Runs of {DAYS} days, on SQLite, over HTTP.")]


def _questions() -> dict[str, str]:
    quarter = (NOW - timedelta(days=90)).date()
    return {
        "by engine, profile, repo and day, of all time": "by=engine,profile,repo,day",
        "by engine and repo, of 90 days": f"by=engine,repo&since={quarter}",
        "by product": "by=product",
    }


def _grown(name: str, small: float, large: float) -> Row:
    goal = f"≤ {ms(GOAL_S)}"
    beside = f"{large / small:.2f} ×"
    return (name, f"{ms(small)} → {ms(large)}", beside, verdict(met=large <= GOAL_S, goal=goal))


def a_run(number: int, runs: int) -> Run:
    """One of many runs: five engines, eight profiles, forty repos, two hundred machines."""
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
    """Fill an embedded store with runs that have ended and with what they come to."""
    tallies: dict[str, RunCounts] = {}
    async with SqliteStore.open(folder / "fleet.db") as store:
        for start in range(0, runs, CHUNK):
            made = [a_run(number, runs) for number in range(start, min(start + CHUNK, runs))]
            await store.commit(*(RecordChange(before=None, after=run) for run in made))
            added: defaultdict[str, list[RunCounts]] = defaultdict(list)
            for run in made:
                told = increment_for_run(None, run)
                assert told is not None, "it has ended"
                for key, counts in tally_additions(told, ()).items():
                    added[key].append(counts)
            for key, many in added.items():
                tallies[key] = sum_counts([*many, tallies.get(key, RunCounts())])
        kept = [add_to_tally(None, key, counts) for key, counts in sorted(tallies.items())]
        for start in range(0, len(kept), CHUNK):
            page = kept[start : start + CHUNK]
            await store.commit(*(RecordChange(before=None, after=tally) for tally in page))


async def asked(served: Served, query: str) -> float:
    """Seconds of one answer, the median of many."""
    waits = []
    viewer = Wire(served.url, served.token, product="")
    for _ in range(ASKED):
        begun = time.perf_counter()
        told = await viewer.call("GET", f"{API}/insights?{query}")
        waits.append(time.perf_counter() - begun)
        assert told["total"]["runs"]
    viewer.close()
    return statistics.median(waits)
