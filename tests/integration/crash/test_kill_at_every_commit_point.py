"""The coordinator is killed before and after every commit point, and no client notices."""

import ast
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Job
from tests.services.aq import environment
from tests.services.fork_server import ROOT, ForkServer
from tests.services.items_server import Items, an_items_server
from tests.support.crash import kill_points
from tests.support.crash.dispatch_mode_scenario import DISPATCH_MODE
from tests.support.crash.history_checker import (
    find_violations,
    open_store,
    read_requests,
    read_store,
)
from tests.support.crash.planner_scenario import PLANNER
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import admin_client
from tests.support.crash.routing_scenario import ROUTING
from tests.support.crash.scenarios import SCENARIOS as OTHERS
from tests.support.crash.scenarios import Scenario

SCENARIOS = {
    **OTHERS,
    "planner": PLANNER,
    "routing": ROUTING,
    "dispatch_mode": DISPATCH_MODE,
}
KILLS_PER_RUN = 4
"""The number of kill points in one run of a scenario."""
ON_POSTGRESQL = (
    *("submit:1", "grant:1", "report:1", "report:3", "renew:1", "approve:1", "unblock:1"),
    *("grant:2", "report:4", "reign:1"),
)
NOT_COVERED = {"compare", "guessing"}
"""Counters and records about unknown clients, which may be lost."""


async def run_scenario(
    scenario: Scenario, coordinator: RestartingCoordinator, store: str | None = None
) -> None:
    """Run a scenario to its end across restarts and check the store."""
    async with AsyncExitStack() as stack:
        trackers: list[Items] = []
        if "{tracker}" in scenario.file:
            trackers.append(await stack.enter_async_context(an_items_server()))
        file = scenario.file.replace("{tracker}", trackers[0].url if trackers else "")
        (coordinator.folder / "aq.toml").write_text(file)
        await stack.enter_async_context(running_coordinator(coordinator))
        admin = await stack.enter_async_context(admin_client(coordinator))
        await scenario.run(coordinator, admin, *trackers)
        await coordinator.stop()
    assert coordinator.kill_points == []
    async with open_store(store or coordinator.folder / "data" / "fleet.db") as store_after:
        assert (
            await find_violations(store_after, read_requests(coordinator.history), admin.responses)
            == []
        )
        found = events_by_name(*await read_store(store_after))
    assert found == {name: list(events) for name, events in scenario.expected_events.items()}


def events_by_name(entries: Sequence[FeedEntry], jobs: Sequence[Job]) -> dict[str, list[str]]:
    """Return the events of each job by name; copies of a schedule share one name."""
    names = {job.id: re.sub(r"-\d{8}-\d{4}$", "-copy", job.name) for job in jobs}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for entry in entries:
        if entry.event.job_id is not None:
            found[names[entry.event.job_id]].append(entry.event.type)
    return found


def split_into_runs(points: Sequence[str], deaths: int = KILLS_PER_RUN) -> list[Sequence[str]]:
    """Distribute the points over the fewest runs, with distant points in each run."""
    count = math.ceil(len(points) / deaths)
    return [points[offset::count] for offset in range(count)]


def before_and_after(points: Sequence[str]) -> list[str]:
    """Return kill points before and after the commit of each point."""
    return [f"{moment}:{point}" for point in points for moment in ("asked", "answered")]


def run_id(points: object) -> str:
    """Return a test id of the kill points."""
    return points if isinstance(points, str) else "+".join(map(str, cast("Sequence[str]", points)))


RUNS = [
    (name, points)
    for name, scenario in SCENARIOS.items()
    for points in split_into_runs(
        scenario.kill_points, 1 if scenario.is_concurrent else KILLS_PER_RUN
    )
]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_story_reaches_every_commit_point_it_names(
    name: str, forks: ForkServer, tmp_path: Path
) -> None:
    scenario = SCENARIOS[name]
    coordinator = RestartingCoordinator(forks, tmp_path, settings=scenario.settings)
    await run_scenario(scenario, coordinator)
    committed = Counter(request.what for request in read_requests(coordinator.history))
    expected = Counter(point.partition(":")[0] for point in scenario.kill_points)
    assert [verb for verb in expected if committed[verb] < expected[verb]] == []


def test_every_coordinator_verb_is_in_a_story() -> None:
    sources = (ROOT / "src" / "gigafactory" / "coordinator").rglob("*.py")
    verbs = {verb for source in sources for verb in verbs_of(source)}
    covered = {point.partition(":")[0] for _, points in RUNS for point in points}
    assert verbs - covered == NOT_COVERED


def verbs_of(source: Path) -> Iterator[str]:
    """Yield the verbs that a module passes to the committer."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(ast.Attribute(attr="_committer"), "commit" | "settle"),
                args=[_, ast.Constant(str(verb)), *_],
            ):
                yield verb
            case _:
                pass


def test_every_commit_point_is_covered_by_a_kill() -> None:
    points = [
        f"{name} {point}" for name, scenario in SCENARIOS.items() for point in scenario.kill_points
    ]
    covered = [f"{name} {point}" for name, points in RUNS for point in points]
    assert sorted(covered) == sorted(points)


@pytest.mark.parametrize(("name", "points"), RUNS, ids=run_id)
async def test_coordinator_killed_at_a_commit_point_loses_and_repeats_nothing(
    name: str, points: Sequence[str], forks: ForkServer, tmp_path: Path
) -> None:
    scenario = SCENARIOS[name]
    coordinator = RestartingCoordinator(
        forks, tmp_path, kill_points=before_and_after(points), settings=scenario.settings
    )
    await run_scenario(scenario, coordinator)
    assert coordinator.kills >= 2 * len(points)


@pytest.mark.parametrize("points", split_into_runs(ON_POSTGRESQL), ids=run_id)
async def test_coordinator_on_postgresql_killed_at_a_commit_point_loses_nothing(
    points: Sequence[str], forks: ForkServer, database: str, tmp_path: Path
) -> None:
    coordinator = RestartingCoordinator(
        forks, tmp_path, store=database, kill_points=before_and_after(points)
    )
    await run_scenario(SCENARIOS["shipping"], coordinator, database)
    assert coordinator.kills >= 2 * len(points)


def test_launcher_kills_the_real_program_at_a_history_line(tmp_path: Path) -> None:
    typed = ["serve", "--port", "0", "--history", str(tmp_path / "history.jsonl")]
    result = subprocess.run(
        [sys.executable, "-m", kill_points.__name__, "--at", "asked:beat:1", "--", *typed],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == -9, result.stderr
    [last] = [
        request for request in read_requests(tmp_path / "history.jsonl") if request.what == "beat"
    ]
    assert last.accepted is None
