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
from tests.support.crash.dispatch_mode_scenario import TURNED
from tests.support.crash.history_checker import asked_in, everything, faults, opened
from tests.support.crash.planner_scenario import PLANNERS
from tests.support.crash.restarting_coordinator import Lives, living
from tests.support.crash.retrying_client import calling
from tests.support.crash.routing_scenario import SWITCHED_BACK
from tests.support.crash.scenarios import STORIES as OTHERS
from tests.support.crash.scenarios import Story

STORIES = {
    **OTHERS,
    "planners": PLANNERS,
    "switched back": SWITCHED_BACK,
    "turned": TURNED,
}
DEATHS_A_TELLING = 4
"""Commit points at which the coordinator dies while a story is told once."""
ON_POSTGRESQL = (
    *("submit:1", "grant:1", "report:1", "report:3", "renew:1", "approve:1", "unblock:1"),
    *("grant:2", "report:4", "reign:1"),
)
NOT_PROMISED = {"compare", "guessing"}
"""Counts of comparisons and notes on strangers, which may get lost."""


async def told(story: Story, lives: Lives, store: str | None = None) -> None:
    """Tell a story to its end, over all deaths, and judge what was left of it."""
    async with AsyncExitStack() as stack:
        beside: list[Items] = []
        if "{tracker}" in story.file:
            beside.append(await stack.enter_async_context(an_items_server()))
        file = story.file.replace("{tracker}", beside[0].url if beside else "")
        (lives.folder / "aq.toml").write_text(file)
        await stack.enter_async_context(living(lives))
        admin = await stack.enter_async_context(calling(lives))
        await story.tell(lives, admin, *beside)
        await lives.stop()
    assert lives.dooms == []
    async with opened(store or lives.folder / "data" / "fleet.db") as kept:
        assert await faults(kept, asked_in(lives.history), admin.notes) == []
        found = becomes(*await everything(kept))
    assert found == {name: list(events) for name, events in story.becomes.items()}


def becomes(entries: Sequence[FeedEntry], jobs: Sequence[Job]) -> dict[str, list[str]]:
    """The events of each job by its name; the copies of a schedule are named alike."""
    names = {job.id: re.sub(r"-\d{8}-\d{4}$", "-copy", job.name) for job in jobs}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for entry in entries:
        if entry.event.job_id is not None:
            found[names[entry.event.job_id]].append(entry.event.type)
    return found


def tellings(points: Sequence[str], deaths: int = DEATHS_A_TELLING) -> list[Sequence[str]]:
    """Share the points among as few tellings as it takes, those of each one far apart."""
    count = math.ceil(len(points) / deaths)
    return [points[offset::count] for offset in range(count)]


def dooms(points: Sequence[str]) -> list[str]:
    """Die before the commit of each point; and when a later life comes there, behind it."""
    return [f"{moment}:{point}" for point in points for moment in ("asked", "answered")]


def named(points: object) -> str:
    """Name a telling by the points where the coordinator dies."""
    return points if isinstance(points, str) else "+".join(map(str, cast("Sequence[str]", points)))


TELLINGS = [
    (name, points)
    for name, story in STORIES.items()
    for points in tellings(story.dies_at, 1 if story.is_concurrent else DEATHS_A_TELLING)
]


@pytest.mark.parametrize("name", STORIES)
async def test_every_commit_point_of_a_story_is_named(
    name: str, forks: ForkServer, tmp_path: Path
) -> None:
    story = STORIES[name]
    lives = Lives(forks, tmp_path, settings=story.settings)
    await told(story, lives)
    made = Counter(asked.what for asked in asked_in(lives.history))
    wanted = Counter(point.partition(":")[0] for point in story.dies_at)
    assert [verb for verb in wanted if made[verb] < wanted[verb]] == []


def test_every_verb_of_the_coordinator_is_in_a_story() -> None:
    sources = (ROOT / "src" / "gigafactory" / "coordinator").rglob("*.py")
    verbs = {verb for source in sources for verb in verbs_of(source)}
    covered = {point.partition(":")[0] for _, points in TELLINGS for point in points}
    assert verbs - covered == NOT_PROMISED


def verbs_of(source: Path) -> Iterator[str]:
    """The verbs that a module writes into the committer by name."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Call(
                func=ast.Attribute(ast.Attribute(attr="_committer"), "commit" | "settle"),
                args=[_, ast.Constant(str(verb)), *_],
            ):
                yield verb
            case _:
                pass


def test_every_commit_point_is_in_a_telling() -> None:
    points = [f"{name} {point}" for name, story in STORIES.items() for point in story.dies_at]
    told_of = [f"{name} {point}" for name, points in TELLINGS for point in points]
    assert sorted(told_of) == sorted(points)


@pytest.mark.parametrize(("name", "points"), TELLINGS, ids=named)
async def test_nothing_is_lost_or_done_twice_when_the_coordinator_dies_at(
    name: str, points: Sequence[str], forks: ForkServer, tmp_path: Path
) -> None:
    story = STORIES[name]
    lives = Lives(forks, tmp_path, dooms=dooms(points), settings=story.settings)
    await told(story, lives)
    assert lives.deaths >= 2 * len(points)


@pytest.mark.parametrize("points", tellings(ON_POSTGRESQL), ids=named)
async def test_nothing_is_lost_or_done_twice_on_postgresql_when_it_dies_at(
    points: Sequence[str], forks: ForkServer, database: str, tmp_path: Path
) -> None:
    lives = Lives(forks, tmp_path, store=database, dooms=dooms(points))
    await told(STORIES["shipping"], lives, database)
    assert lives.deaths >= 2 * len(points)


def test_the_launcher_kills_the_real_program_at_a_line_of_its_history(tmp_path: Path) -> None:
    typed = ["serve", "--port", "0", "--history", str(tmp_path / "history.jsonl")]
    ran = subprocess.run(
        [sys.executable, "-m", kill_points.__name__, "--at", "asked:beat:1", "--", *typed],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == -9, ran.stderr
    [last] = [asked for asked in asked_in(tmp_path / "history.jsonl") if asked.what == "beat"]
    assert last.accepted is None
