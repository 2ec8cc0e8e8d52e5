"""Screens of the dashboard, compared with the stored ones in `screens/`."""

import pytest

from gigafactory.domain.job.job import Stage
from gigafactory.tui.model.source import DashboardSnapshot
from tests.support.scripted_source import ScriptedSource, a_fleet, a_job, lease_view
from tests.unit.tui.conftest import stored_screen, watching

VIEWS = {"board": "1", "attention": "2", "factories": "3", "queue": "4", "budgets": "5"}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["80x24", "160x48"])
async def test_view_matches_its_stored_screen(view: str, size: tuple[int, int]) -> None:
    async with watching(ScriptedSource(a_fleet()), size) as terminal:
        await terminal.press(VIEWS[view])
        terminal.matches(stored_screen(f"{view}-{size[0]}x{size[1]}"))


@pytest.mark.parametrize("view", VIEWS)
async def test_empty_view_names_the_next_step(view: str) -> None:
    async with watching(ScriptedSource(DashboardSnapshot())) as terminal:
        await terminal.press(VIEWS[view])
        terminal.matches(stored_screen(f"empty-{view}"))


async def test_job_screen_matches_its_stored_screen() -> None:
    source = ScriptedSource(a_fleet())
    source.reasons = ("granted 3m ago, because it has the repo already",)
    source.append_log("id-survivor", "\x1b[36mreading\x1b[0m the catalogue\nmoved 1 of 3\nmoved 2 ")
    async with watching(source) as terminal:
        await terminal.press("down", "down", "down", "enter")
        await terminal.sees("moved 1 of 3")
        terminal.matches(stored_screen("job"))


async def test_job_that_has_not_run_is_shown_as_such() -> None:
    source = ScriptedSource(DashboardSnapshot(jobs=(a_job("later"),), counts={Stage.QUEUED: 1}))
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("the job has not run yet")
        terminal.matches(stored_screen("job-not-run"))


async def test_help_fits_on_a_small_screen() -> None:
    async with watching(ScriptedSource(a_fleet())) as terminal:
        await terminal.press("question_mark")
        terminal.matches(stored_screen("help"))
        await terminal.press("escape")
        assert "Keys" not in terminal.text


async def test_prompt_leaves_its_subject_visible() -> None:
    async with watching(ScriptedSource(a_fleet())) as terminal:
        await terminal.press("down", "s")
        terminal.matches(stored_screen("confirm-prompt"))
        await terminal.press("n")
        await terminal.press("x")
        terminal.matches(stored_screen("text-prompt"))


async def test_narrow_terminal_shows_names_and_states() -> None:
    job = a_job("fix-login", Stage.BUILDING, lease=lease_view("mac-1"))
    source = ScriptedSource(DashboardSnapshot(jobs=(job,), counts={Stage.BUILDING: 1}))
    async with watching(source, (50, 12)) as terminal:
        assert "fix-login" in terminal.text
        assert "mac-1" in terminal.text
        await terminal.pilot.resize_terminal(160, 48)
        await terminal.sees("medium")
