"""Start time of the `aq` command and of the coordinator."""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import latency
from fleet import API, AQ, Served, a_job, environment, serving
from harness import Harness
from table import Section, ms, verdict
from wire import wire

STARTS = 5
RUNS = 9


def sections(harness: Harness) -> list[Section]:
    """Measure the start of two commands and of a coordinator."""
    with tempfile.TemporaryDirectory() as folder, serving(data=Path(folder)) as served:
        asyncio.run(_submit_jobs(served))
        trip = median(asyncio.run(latency.round_trip(served, 100)))
        commands = ([sys.executable, "-c", "pass"], [AQ, "--help"], [AQ, "jobs"])
        bare, help_, jobs = _seconds(commands, _user_environment(Path(folder)))
    rows = []
    for name, spent, beside, floor in (
        ("`aq --help`", help_, "`python -c pass`", bare),
        ("`aq jobs` with 20 jobs", jobs, "`python -c pass` and one HTTP round trip", bare + trip),
    ):
        ratio = spent / floor
        judged = verdict(met=ratio <= 3, goal="≤ 3 ×")
        rows.append((name, ms(spent), f"{ratio:.1f} × {beside} ({ms(floor)})", judged))
    ready = median(_time_to_ready() for _ in range(2 if harness.quick else STARTS))
    judged = verdict(met=ready <= 1.5, goal="≤ 1.5 s")
    rows.append(("coordinator ready, empty store", f"{ready:.2f} s", "", judged))
    note = "Medians, with cached byte code, as from a user's second start on."
    return [Section("Start", rows, note)]


async def _submit_jobs(served: Served) -> None:
    async with wire(served.url, served.token) as people:
        jobs = [a_job(f"listed-{number}") for number in range(20)]
        await people.call("POST", f"{API}/jobs", {"jobs": jobs})


def _user_environment(folder: Path) -> dict[str, str]:
    """Return a user's environment; settings of the coordinator are left out."""
    environ = environment(folder)
    return {k: v for k, v in environ.items() if k == "AQ_DATA" or not k.startswith("AQ_")}


def _seconds(commands: tuple[list[str], ...], environ: dict[str, str]) -> list[float]:
    """Return the median of each command; the first of the alternating rounds is a warm-up."""
    waits: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS + 1):
        for command, spent in zip(commands, waits, strict=True):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environ)
            spent.append(time.perf_counter() - begun)
    return [median(spent[1:]) for spent in waits]


def _time_to_ready() -> float:
    begun = time.perf_counter()
    with serving():
        return time.perf_counter() - begun
