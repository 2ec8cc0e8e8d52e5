"""The log on the job screen: live, in colour, without escape sequences."""

from msgspec.structs import replace

from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.job.job import Stage
from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.tui.widgets.text import format_countdown, one_line, render_log_line, truncate
from tests.support.builders import NOON
from tests.support.scripted_source import ScriptedSource, a_job, after, lease_view
from tests.unit.tui.conftest import watching

JOB = a_job("fix-login", Stage.BUILDING, lease=lease_view("mac-1"), lease_epoch=1)


def source_with(*printed: str | None) -> ScriptedSource:
    source = ScriptedSource(DashboardSnapshot(jobs=(JOB,), counts={Stage.BUILDING: 1}))
    for text in printed:
        source.append_log(JOB.id, text)
    return source


async def test_log_grows_line_by_line_and_ends() -> None:
    source = source_with("one\ntw")
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("one", "log, following", gone="tw\n")
        source.append_log(JOB.id, "o\nthr")
        await terminal.sees("two")
        source.append_log(JOB.id, None)
        await terminal.sees("thr", "log, ended")


async def test_log_of_the_next_run_is_followed() -> None:
    source = source_with("first\n", None)
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("log, ended")
        source.replace_job(replace(JOB, lease_epoch=2))
        await terminal.sees("next run", "log, following")
        source.append_log(JOB.id, "second\n")
        await terminal.sees("first", "second")


async def test_job_screen_recovers_from_an_outage() -> None:
    source = source_with("one\n")
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("one")
        source.outage = Unreachable("cannot reach it")
        terminal.app.request_reload()
        await terminal.sees("✗ no answer", "cannot reach it")
        source.outage = None
        await terminal.sees("● live")


async def test_long_log_opens_at_its_end_and_can_be_scrolled() -> None:
    source = source_with("".join(f"line {number}\n" for number in range(1000)))
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("line 999")
        await terminal.press("g")
        await terminal.sees("line 0\n", "f follows the end")
        source.append_log(JOB.id, "line 1000\n")
        await terminal.press("j", "space", "k")
        assert "line 1000" not in terminal.text
        await terminal.press("f")
        await terminal.sees("line 1000", "log, following")


async def test_log_lines_can_be_searched() -> None:
    source = source_with("".join(f"line {number}\n" for number in range(1000)))
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("line 999")
        await terminal.press("slash")
        await terminal.type("LINE 12")
        await terminal.sees("11 matching lines", "line 12\n", "line 129", gone="line 999")
        await terminal.press("escape")
        await terminal.sees("line 999")
        await terminal.press("escape")
        await terminal.sees("1 Board")


async def test_long_lines_are_wrapped_again_after_a_resize() -> None:
    source = source_with("x" * 100 + "\nshort\n")
    async with watching(source) as terminal:
        await terminal.press("enter")
        await terminal.sees("short", "\n " + "x" * 21)
        await terminal.pilot.resize_terminal(160, 30)
        await terminal.sees("x" * 100)


async def test_foreign_text_is_shown_without_markup_or_escapes() -> None:
    evil = "[red]not red[/red] \x1b]52;c;eA==\x07\x1b[2Jgone\x07 \u202eback [link=x]y[/link]"
    job = replace(JOB, name="[b]name[/b]", title=evil, reason=evil)
    source = ScriptedSource(DashboardSnapshot(jobs=(job,), counts={Stage.BUILDING: 1}))
    source.append_log(JOB.id, f"\x1b[32mgreen\x1b[0m {evil}\n\x1b[?1049h\x1b[5A50%\r100%\n")
    shown = "[red]not red[/red] gone back [link=x]y[/link]"
    async with watching(source, (160, 24)) as terminal:
        await terminal.sees("[b]name[/b]", shown)
        await terminal.press("enter")
        await terminal.sees("[b]name[/b]", f"green {shown}", "\n 100%\n")
        assert "\x1b" not in terminal.text
        assert "\u202e" not in terminal.text
        assert "color(2)" in terminal.style_of("green")
        assert "color(" not in terminal.style_of("gone")


def test_texts_are_truncated_to_their_width() -> None:
    assert truncate("日本語の題名", 7) == "日本語…"
    assert truncate("short", 7) == "short"
    assert truncate("anything", 0) == ""
    assert one_line("a\n\tb\x00c") == "a bc"
    assert render_log_line("\tx").plain == "        x"


def test_countdown_is_to_the_second_and_never_negative() -> None:
    assert format_countdown(after(seconds=0.2), NOON) == "0:01"
    assert format_countdown(after(seconds=61), NOON) == "1:01"
    assert format_countdown(after(hours=2, seconds=5), NOON) == "2:00:05"
    assert format_countdown(after(days=3, hours=4), NOON) == "3d 4h"
    assert format_countdown(NOON, after(seconds=5)) == "0:00"
