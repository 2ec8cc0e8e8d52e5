"""How long it takes to be there: the command, and the coordinator."""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import latency
from fleet import API, AQ, Served, a_job, environment, serving
from ground import Ground
from table import Section, ms, verdict
from wire import wire

STARTS = 5
RUNS = 9


def sections(ground: Ground) -> list[Section]:
    """What a person waits for."""
    with tempfile.TemporaryDirectory() as folder, serving(data=Path(folder)) as served:
        asyncio.run(_some_jobs(served))
        trip = median(asyncio.run(latency.round_trip(served, 100)))
        commands = ([sys.executable, "-c", "pass"], [AQ, "--help"], [AQ, "jobs"])
        bare, help_, jobs = _seconds(commands, _terminal(Path(folder)))
    rows = []
    for name, spent, beside, floor in (
        ("`aq --help`", help_, "`python -c pass`", bare),
        ("`aq jobs`, 20 of them", jobs, "`python -c pass` and one HTTP round trip", bare + trip),
    ):
        ratio = spent / floor
        said = verdict(met=ratio <= 3, goal="≤ 3 ×")
        rows.append((name, ms(spent), f"{ratio:.1f} × {beside} ({ms(floor)})", said))
    ready = median(_ready() for _ in range(2 if ground.quick else STARTS))
    said = verdict(met=ready <= 1.5, goal="≤ 1.5 s")
    rows.append(("coordinator ready, empty store", f"{ready:.2f} s", "", said))
    note = "Medians, with the byte code there, as it is from a user's second start on."
    return [Section("Start", rows, note)]


async def _some_jobs(served: Served) -> None:
    async with wire(served.url, served.token) as people:
        jobs = [a_job(f"listed-{number}") for number in range(20)]
        await people.call("POST", f"{API}/jobs", {"jobs": jobs})


def _terminal(folder: Path) -> dict[str, str]:
    """What people have set where they type; the limits are for the coordinator alone."""
    environ = environment(folder)
    return {k: v for k, v in environ.items() if k == "AQ_DATA" or not k.startswith("AQ_")}


def _seconds(commands: tuple[list[str], ...], environ: dict[str, str]) -> list[float]:
    """The median of each command, taken in turns; the first turn only leaves byte code behind."""
    waits: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS + 1):
        for command, spent in zip(commands, waits, strict=True):
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environ)
            spent.append(time.perf_counter() - begun)
    return [median(spent[1:]) for spent in waits]


def _ready() -> float:
    begun = time.perf_counter()
    with serving():
        return time.perf_counter() - begun
