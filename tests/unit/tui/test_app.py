"""Live updates, navigation, filters and outages."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.errors import Unauthenticated
from gigafactory.domain.job.job import Stage
from gigafactory.tui.app import DashboardApp
from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.tui.screens.dashboard import DashboardScreen
from tests.support.builders import NOON
from tests.support.scripted_source import ScriptedSource, a_fleet, a_job, lease_view
from tests.support.terminal import QUICK, Terminal
from tests.unit.tui.conftest import stored_screen, watching


def selected(terminal: Terminal) -> str | None:
    screen = terminal.app.screen
    assert isinstance(screen, DashboardScreen)
    return screen.rows.selected.key if screen.rows.selected else None


def many(count: int) -> DashboardSnapshot:
    jobs = tuple(a_job(f"job-{number:03}") for number in range(count))
    return DashboardSnapshot(jobs=jobs, counts={Stage.QUEUED: count})


async def test_new_jobs_appear_without_a_key_press() -> None:
    source = ScriptedSource(DashboardSnapshot())
    async with watching(source) as terminal:
        assert "No jobs yet." in terminal.text
        source.update(lambda _: many(1))
        await terminal.sees("job-000", gone="No jobs yet.")
    assert source.closed


async def test_selection_survives_added_removed_and_moved_rows() -> None:
    source = ScriptedSource(many(60))
    async with watching(source) as terminal:
        await terminal.press(*["down"] * 30)
        assert selected(terminal) == "id-job-030"
        source.update(lambda snapshot: replace(snapshot, jobs=snapshot.jobs[20:]))
        await terminal.until(lambda: "job-019" not in terminal.text)
        await terminal.until(lambda: len(terminal.app.snapshot.jobs) == 40)
        assert selected(terminal) == "id-job-030"
        assert "job-030" in terminal.text
        moved = a_job("job-030", Stage.BUILDING, lease=lease_view("mac-1"))
        source.replace_job(moved)
        await terminal.sees("mac-1")
        assert selected(terminal) == "id-job-030"
        source.update(lambda snapshot: replace(snapshot, jobs=snapshot.jobs[11:]))
        await terminal.until(lambda: len(terminal.app.snapshot.jobs) == 29)
        assert selected(terminal) == "id-job-031"
        source.update(lambda _: DashboardSnapshot())
        await terminal.sees("No jobs yet.")
        assert selected(terminal) is None


async def test_keys_move_the_selection_to_both_ends() -> None:
    async with watching(ScriptedSource(many(60))) as terminal:
        for keys, key in (
            (("j",), "id-job-001"),
            (("k", "k"), "id-job-000"),
            (("G",), "id-job-059"),
            (("down",), "id-job-059"),
            (("g",), "id-job-000"),
        ):
            await terminal.press(*keys)
            assert selected(terminal) == key
            assert str(key).removeprefix("id-") in terminal.text
        await terminal.press("pagedown")
        assert selected(terminal) not in {"id-job-000", None}
        assert "INBOX 60" not in terminal.text
        await terminal.press("pageup")
        assert "INBOX 60" in terminal.text


async def test_keys_move_between_columns_on_a_wide_terminal() -> None:
    async with watching(ScriptedSource(a_fleet()), (120, 30)) as terminal:
        heads = terminal.text.splitlines()[2].split()
        assert heads[::2] == ["REVIEW", "TESTING", "BUILDING", "INBOX", "FAILED", "SHIPPED"]
        for keys, key in (
            (("right",), "id-prices"),
            (("j",), "id-asked"),
            (("l",), "id-survivor"),
            (("h",), "id-asked"),
            (("left", "left"), "id-terms"),
            (("right",) * 9, "id-done"),
        ):
            await terminal.press(*keys)
            assert selected(terminal) == key
            assert str(key).removeprefix("id-").capitalize() in terminal.text.splitlines()[-5]
        await terminal.press("tab")
        assert "YOUR TURN" in terminal.text
        await terminal.press("left")
        assert selected(terminal) == "id-done"


async def test_selection_follows_a_job_to_another_column() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source, (160, 48)) as terminal:
        await terminal.press("right", "right")
        assert selected(terminal) == "id-survivor"
        source.replace_job(a_job("survivor", Stage.REVIEW))
        await terminal.sees("REVIEW 2", gone="BUILDING")
        assert selected(terminal) == "id-survivor"
        assert "reverse" in terminal.style_of("survivor")
        assert "reverse" not in terminal.style_of("prices"), "one is chosen, and no other"
        await terminal.press("a")
        await terminal.until(lambda: bool(source.calls))
        assert source.calls[0][:2] == ("approve", "id-survivor")
        source.update(lambda _: DashboardSnapshot())
        await terminal.sees("No jobs yet.")
        source.update(lambda _: many(1))
        await terminal.sees("job-000")
        assert selected(terminal) == "id-job-000"


async def test_resize_changes_the_board_layout_and_keeps_the_selection() -> None:
    async with watching(ScriptedSource(a_fleet()), (160, 48)) as terminal:
        await terminal.press("right", "right", "right", "down")
        await terminal.pilot.resize_terminal(80, 24)
        await terminal.sees("INBOX 3 · flaky")
        assert selected(terminal) == "id-logo"
        await terminal.press("up")
        await terminal.pilot.resize_terminal(160, 48)
        await terminal.until(lambda: "REVIEW 1   " in terminal.text)
        assert selected(terminal) == "id-flaky"
        await terminal.pilot.click("#column-failed", offset=(4, 1))
        assert selected(terminal) == "id-film"
        assert terminal.app.screen.query_one("#column-failed").has_focus
        await terminal.pilot.click("#column-failed", offset=(4, 1))
        await terminal.sees("verify: `make test` ended with 2", gone="REVIEW 1")


async def test_each_view_remembers_its_selection() -> None:
    async with watching(ScriptedSource(a_fleet())) as terminal:
        await terminal.press("down", "down")
        before = selected(terminal)
        await terminal.press("tab")
        assert "YOUR TURN" in terminal.text
        await terminal.press("shift+tab")
        assert selected(terminal) == before


async def test_outage_is_shown_and_ends_by_itself() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source, hint=lambda _: "start a coordinator with `aq up`") as terminal:
        source.outage = Unreachable("cannot reach http://fleet.example:8790: refused")
        terminal.app.request_reload()
        await terminal.sees(
            "✗ no answer", "cannot reach http://fleet", "start a coordinator with `aq up`"
        )
        assert "Showing the state of 12:00:00" in " ".join(terminal.text.split())
        assert "survivor" in terminal.text
        terminal.matches(stored_screen("outage"))
        source.outage = None
        await terminal.sees("● live", gone="cannot reach")


async def test_source_that_never_answered_is_not_shown_as_empty() -> None:
    source = ScriptedSource(a_fleet())
    source.outage = Unreachable("cannot reach http://fleet.example:8790: refused")
    async with watching(source) as terminal:
        await terminal.sees("✗ no answer", "cannot reach")
        assert "No jobs yet." not in terminal.text
        terminal.matches(stored_screen("never-loaded"))
        source.outage = None
        await terminal.sees("● live", "survivor")


async def test_rejected_token_shows_the_next_step() -> None:
    source = ScriptedSource(a_fleet())
    source.outage = Unauthenticated("this token is not known, or has ended")
    async with watching(source, hint=lambda _: "set AQ_FLEET_TOKEN") as terminal:
        await terminal.sees("this token is not known", "set AQ_FLEET_TOKEN")


async def test_filter_narrows_the_rows_and_the_request() -> None:
    source = ScriptedSource(a_fleet())
    async with watching(source) as terminal:
        await terminal.press("slash")
        await terminal.type("prices it")
        await terminal.sees("Prices it", "/ prices it", gone="survivor")
        await terminal.until(lambda: source.filters[-1] == "prices it")
        await terminal.press("slash", *["backspace"] * 20)
        await terminal.type("nowhere")
        await terminal.sees("Nothing matches 'nowhere'")
        await terminal.press("escape")
        await terminal.sees("survivor", gone="nowhere")
        await terminal.until(lambda: source.filters[-1] == "")


async def test_countdowns_are_updated() -> None:
    source = ScriptedSource(a_fleet())
    time = [NOON]

    def now() -> datetime:
        return time[0]

    app = DashboardApp(source, now=now, intervals=QUICK)
    async with app.run_test(size=(80, 24)) as pilot:
        terminal = Terminal(app, pilot)
        await terminal.press("3")
        await terminal.sees("(4:31 left)")
        time[0] = NOON + timedelta(seconds=31)
        app.redraw_screens()
        await terminal.sees("(4:00 left)")
        time[0] = NOON + timedelta(minutes=5)
        app.redraw_screens()
        await terminal.sees("0/2 seats", gone="rate-limited")
        await terminal.press("4")
        await terminal.sees("READY 2", gone="BACK-OFF")
