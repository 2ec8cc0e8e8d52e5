"""The dashboard with a real folder."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gigafactory.config.settings import FactorySettings, FolderSettings
from gigafactory.tui.app import RefreshIntervals
from gigafactory.tui.folder_source.source import FolderSource
from tests.support.folder_queue import FolderHarness
from tests.support.terminal import Terminal, watching

# Polling is off: only changed files cause a reload.
BY_FILES = RefreshIntervals(debounce=0.0, poll=600.0, retry=0.05)


@pytest.fixture
def place(tmp_path: Path) -> FolderHarness:
    """An empty folder queue."""
    return FolderHarness(tmp_path)


@asynccontextmanager
async def dashboard(place: FolderHarness) -> AsyncIterator[Terminal]:
    settings = FactorySettings(id="this", repos=place.folder, sandbox="none")
    source = FolderSource(place.reopen(), settings, FolderSettings(), by="user:ada")
    async with watching(source, now=place.clock.now, intervals=BY_FILES) as terminal:
        yield terminal


async def test_empty_folder_suggests_the_next_command(place: FolderHarness) -> None:
    async with dashboard(place) as terminal:
        for view, said in (
            ("1", "Add one with `aq add FILE`"),
            ("2", "Nothing waits for you."),
            ("3", "`aq run` runs the jobs in its inbox"),
            ("5", "`aq insights` shows the cost of its runs"),
        ):
            await terminal.press(view)
            await terminal.sees(said)


async def test_job_is_run_approved_and_shipped(place: FolderHarness) -> None:
    place.drop_repo_job("greet", "# Greet\necho hello > hello.txt")
    async with dashboard(place) as terminal:
        await terminal.press("2")
        await terminal.sees("1 new in the inbox", "greet.md: `aq run` submits them")
        await place.run()
        await terminal.press("1")
        await terminal.sees("REVIEW 1", "greet")
        await terminal.press("a")
        await terminal.sees("approve: greet is testing now", "TESTING 1", "ready to ship")
        await terminal.press("s", "y")
        await terminal.sees("ship: greet is shipped now", "SHIPPED 1")
    assert place.columns_of("greet") == ["shipped"]
    assert "user:ada" in str(place.record("greet").job)
    assert place.remote.text("main", "hello.txt") == "hello"


async def test_reject_requeue_and_cancel_keys_act_on_a_job(place: FolderHarness) -> None:
    place.drop("greet", "echo hello")
    await place.run()
    async with dashboard(place) as terminal:
        await terminal.sees("REVIEW 1")
        await terminal.press("x")
        await terminal.type("too short")
        await terminal.sees("FAILED 1", "too short")
        assert place.columns_of("greet") == ["failed"]
        await terminal.press("r")
        await terminal.sees("INBOX 1")
        assert place.columns_of("greet") == ["inbox"]
        await terminal.press("c", "y")
        await terminal.sees("cancel: greet is cancelled now")
    assert place.job("greet").stage == "cancelled"


async def test_invalid_file_is_listed_as_a_problem_and_can_be_retried(place: FolderHarness) -> None:
    place.drop("broken", "x", timeout="3x")
    await place.run()
    async with dashboard(place) as terminal:
        await terminal.press("2")
        await terminal.sees("PROBLEMS 1", "broken.md is not a valid job file", "timeout")
        place.drop("other", "true")
        await terminal.press("r")
        await terminal.sees("broken.md is in the inbox again")
    assert (place.board.column("inbox") / "broken.md").exists()


async def test_queue_view_says_why_jobs_wait(place: FolderHarness) -> None:
    place.drop("first", "exit 1", retry="{max: 2, backoff: 50s}")
    place.drop("second", "true", deps="[first, third]")
    runner = asyncio.create_task((await place.runner()).run(once=True))
    async with dashboard(place) as terminal:
        await terminal.press("4")
        await terminal.sees("BLOCKED 1", "second", "waits for")
        await terminal.sees("BACK-OFF 1", "first", "in 0:")
    runner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await runner


async def test_a_log_is_followed_live_and_its_runner_is_drained(place: FolderHarness) -> None:
    go = place.folder / "go"
    place.drop("greet", f"echo one; until test -e {go}; do sleep 0.05; done; echo two")
    with place.shell.start("run") as running:
        async with dashboard(place) as terminal:
            await terminal.sees("BUILDING 1", f"runner {running.pid}")
            await terminal.press("enter")
            await terminal.sees("one", f"process {running.pid} runs it")
            await terminal.press("escape", "3")
            await terminal.sees(f"runner {running.pid}", "online", "d drain")
            await terminal.press("d", "y")
            await terminal.sees("is draining: it takes no new jobs", gone="d drain")
            await terminal.press("1", "enter")
            go.touch()
            await terminal.sees("two")
            assert await asyncio.to_thread(running.wait, 30) == 0
            await terminal.sees("needs review")


async def test_missing_folder_is_reported_until_it_is_back(place: FolderHarness) -> None:
    place.drop("greet", "true")
    await place.run()
    away = place.folder / "away"
    async with dashboard(place) as terminal:
        await terminal.sees("REVIEW 1")
        place.board.root.rename(away)
        await terminal.sees("✗ no answer", "is no longer a folder queue", "greet")
        away.rename(place.board.root)
        await terminal.sees("● live", gone="no longer a folder queue")


async def test_folder_is_halted_and_resumed(place: FolderHarness) -> None:
    place.drop("greet", "echo hello")
    async with dashboard(place) as terminal:
        await terminal.press("H")
        await terminal.type("bad release")
        await terminal.sees("the folder is halted", "‖ halted")
        assert (await place.run()).taken == ()
        await terminal.sees("INBOX 1")
        await terminal.press("2")
        await terminal.sees("by user:ada: bad release")
        await terminal.press("H", "y")
        await terminal.sees("the folder is resumed", "● live")
        assert len((await place.run()).taken) == 1
