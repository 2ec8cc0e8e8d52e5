"""A headless terminal: its screen as text, and key presses."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gigafactory.domain.errors import Refused
from gigafactory.tui.app import DashboardApp, RefreshIntervals
from gigafactory.tui.model.source import DashboardSource

QUICK = RefreshIntervals(debounce=0.0, poll=60.0, retry=0.01)
WITHIN_S = 30.0


class Terminal:
    """A user of the dashboard."""

    def __init__(self, app: DashboardApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """Return the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - there is no other way
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"

    def style_of(self, words: str) -> str:
        """Return the style of the first text that contains these words."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - there is no other way
        return next(str(part.style) for strip in strips for part in strip if words in part.text)

    async def press(self, *keys: str) -> None:
        """Press keys and wait until they are handled."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, words: str) -> None:
        """Type text and press Enter."""
        await self.press(*("space" if letter == " " else letter for letter in words), "enter")

    async def sees(self, *words: str, gone: str = "") -> None:
        """Wait until these words are on the screen and `gone` is not."""

        def condition() -> bool:
            text = f"{self.text}{' '.join(self.text.split())}"
            return all(word in text for word in words) and not (gone and gone in text)

        await self.until(condition)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; on a timeout, fail the test and show the screen."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while self.app.is_running and not condition():
                    await self.pilot.pause()
        except TimeoutError:
            pytest.fail(f"not seen on\n{self.text}")

    def matches(self, stored: Path) -> None:
        """Compare the screen with the stored one; WRITE_SCREENS=1 stores this one."""
        if os.environ.get("WRITE_SCREENS"):
            stored.write_text(self.text)
        assert self.text == stored.read_text()


@asynccontextmanager
async def watching(
    source: DashboardSource,
    size: tuple[int, int] = (80, 24),
    *,
    hint: Callable[[Refused], str | None] = lambda _: None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    intervals: RefreshIntervals = QUICK,
) -> AsyncIterator[Terminal]:
    """Run a dashboard and wait for its first snapshot."""
    app = DashboardApp(source, hint=hint, now=now, intervals=intervals)
    async with app.run_test(size=size) as pilot:
        terminal = Terminal(app, pilot)
        await terminal.until(lambda: app.loaded_at is not None or app.outage is not None)
        await pilot.pause()
        yield terminal
