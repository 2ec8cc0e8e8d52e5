"""The log on the screen of a job: as it grows, in its colours, and never more than text."""

from msgspec.structs import replace

from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.job.job import Stage
from gigafactory.tui.model.source import Snapshot
from gigafactory.tui.widgets.text import countdown, cut, log_line, one_line
from tests.support.builders import NOON
from tests.support.scripted_source import ScriptedPlane, a_job, after, held
from tests.unit.tui.conftest import watching

JOB = a_job("fix-login", Stage.BUILDING, lease=held("mac-1"), lease_epoch=1)


def plane_with(*printed: str | None) -> ScriptedPlane:
    plane = ScriptedPlane(Snapshot(jobs=(JOB,), counts={Stage.BUILDING: 1}))
    for text in printed:
        plane.prints(JOB.id, text)
    return plane


async def test_a_log_grows_line_by_line_and_ends() -> None:
    plane = plane_with("one\ntw")
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("one", "log, following", gone="tw\n")
        plane.prints(JOB.id, "o\nthr")
        await terminal.sees("two")
        plane.prints(JOB.id, None)
        await terminal.sees("thr", "log, ended")


async def test_the_log_of_the_next_run_is_followed_too() -> None:
    plane = plane_with("first\n", None)
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("log, ended")
        plane.now_is(replace(JOB, lease_epoch=2))
        await terminal.sees("the next run", "log, following")
        plane.prints(JOB.id, "second\n")
        await terminal.sees("first", "second")


async def test_a_job_that_is_away_for_a_while_comes_back() -> None:
    plane = plane_with("one\n")
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("one")
        plane.away = Unreachable("cannot reach it")
        terminal.app.look_again()
        await terminal.sees("✗ no answer", "cannot reach it")
        plane.away = None
        await terminal.sees("● live")


async def test_a_long_log_is_read_from_its_end_and_anywhere() -> None:
    plane = plane_with("".join(f"line {number}\n" for number in range(1000)))
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("line 999")
        await terminal.press("g")
        await terminal.sees("line 0\n", "f follows its end")
        plane.prints(JOB.id, "line 1000\n")
        await terminal.press("j", "space", "k")
        assert "line 1000" not in terminal.text
        await terminal.press("f")
        await terminal.sees("line 1000", "log, following")


async def test_lines_of_a_log_are_found() -> None:
    plane = plane_with("".join(f"line {number}\n" for number in range(1000)))
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("line 999")
        await terminal.press("slash")
        await terminal.type("LINE 12")
        await terminal.sees("11 lines have it", "line 12\n", "line 129", gone="line 999")
        await terminal.press("escape")
        await terminal.sees("line 999")
        await terminal.press("escape")
        await terminal.sees("1 Board")


async def test_long_lines_break_anew_when_the_terminal_is_resized() -> None:
    plane = plane_with("x" * 100 + "\nshort\n")
    async with watching(plane) as terminal:
        await terminal.press("enter")
        await terminal.sees("short", "\n " + "x" * 21)
        await terminal.pilot.resize_terminal(160, 30)
        await terminal.sees("x" * 100)


async def test_what_comes_from_elsewhere_is_text_and_nothing_else() -> None:
    evil = "[red]not red[/red] \x1b]52;c;eA==\x07\x1b[2Jgone\x07 \u202eback [link=x]y[/link]"
    job = replace(JOB, name="[b]name[/b]", title=evil, reason=evil)
    plane = ScriptedPlane(Snapshot(jobs=(job,), counts={Stage.BUILDING: 1}))
    plane.prints(JOB.id, f"\x1b[32mgreen\x1b[0m {evil}\n\x1b[?1049h\x1b[5A50%\r100%\n")
    shown = "[red]not red[/red] gone back [link=x]y[/link]"
    async with watching(plane, (160, 24)) as terminal:
        await terminal.sees("[b]name[/b]", shown)
        await terminal.press("enter")
        await terminal.sees("[b]name[/b]", f"green {shown}", "\n 100%\n")
        assert "\x1b" not in terminal.text
        assert "\u202e" not in terminal.text
        assert "color(2)" in terminal.style_of("green")
        assert "color(" not in terminal.style_of("gone")


def test_texts_have_no_more_room_than_they_are_given() -> None:
    assert cut("日本語の題名", 7) == "日本語…"
    assert cut("short", 7) == "short"
    assert cut("anything", 0) == ""
    assert one_line("a\n\tb\x00c") == "a bc"
    assert log_line("\tx").plain == "        x"


def test_a_countdown_is_to_the_second_and_never_below_none() -> None:
    assert countdown(after(seconds=0.2), NOON) == "0:01"
    assert countdown(after(seconds=61), NOON) == "1:01"
    assert countdown(after(hours=2, seconds=5), NOON) == "2:00:05"
    assert countdown(after(days=3, hours=4), NOON) == "3d 4h"
    assert countdown(NOON, after(seconds=5)) == "0:00"
