"""The watchdog of the event loop: it logs for how long the loop was blocked, and by which code."""

import asyncio
import threading
import traceback
from types import FrameType

import pytest
from structlog.testing import capture_logs

from gigafactory.system import loop_watchdog
from gigafactory.system.loop_watchdog import watch_loop
from tests.support.polling import until


async def test_a_blocked_loop_is_logged_with_its_length_and_its_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks: list[float] = []
    with capture_logs() as logs, watch_loop(blocks.append):
        watchdog_looked = _looks(monkeypatch)
        await asyncio.sleep(0)
        hog_the_loop(watchdog_looked)
        await until(lambda: bool(blocks))
    (line,) = (each for each in logs if each["event"] == "event loop blocked")
    assert line["seconds"] >= loop_watchdog.BLOCKED_S
    assert "hog_the_loop" in line["stack"]
    assert blocks[0] >= loop_watchdog.BLOCKED_S


def _looks(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set once the watchdog has read the stack of the blocked loop."""
    looked = threading.Event()
    format_stack = traceback.format_stack

    def format_and_tell(frame: FrameType, limit: int) -> list[str]:
        try:
            return format_stack(frame, limit=limit)
        finally:
            looked.set()

    monkeypatch.setattr(traceback, "format_stack", format_and_tell)
    return looked


def hog_the_loop(until: threading.Event) -> None:
    assert until.wait(30), "nobody looked"


async def test_an_idle_loop_is_not_blocked() -> None:
    with capture_logs() as logs, watch_loop():
        await asyncio.sleep(0)
    assert logs == []
