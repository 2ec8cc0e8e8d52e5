"""A terminal without a terminal: what is on it, as text, and keys that are pressed."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gigafactory.domain.errors import Refused
from gigafactory.tui.app import Dash, Pace
from gigafactory.tui.model.source import Plane

QUICK = Pace(pause=0.0, again=60.0, retry=0.01)
WITHIN_S = 30.0


class Terminal:
    """Somebody in front of a dashboard."""

    def __init__(self, app: Dash, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def text(self) -> str:
        """What is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - there is no other way
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"

    def style_of(self, words: str) -> str:
        """The colours in which some words are shown."""
        strips = self.app.screen._compositor.render_strips()  # noqa: SLF001 - the same
        return next(str(part.style) for strip in strips for part in strip if words in part.text)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until they have done what they do."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, words: str) -> None:
        """Write words, and hand them in."""
        await self.press(*("space" if letter == " " else letter for letter in words), "enter")

    async def sees(self, *words: str, gone: str = "") -> None:
        """Come back when these words are on the screen, and those others are not."""

        def look() -> bool:
            text = f"{self.text}{' '.join(self.text.split())}"
            return all(word in text for word in words) and not (gone and gone in text)

        await self.until(look)

    async def until(self, look: Callable[[], bool]) -> None:
        """Come back when it is so; a screen that never shows it is in the failure."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while self.app.is_running and not look():
                    await self.pilot.pause()
        except TimeoutError:
            pytest.fail(f"not seen on\n{self.text}")

    def matches(self, kept: Path) -> None:
        """Compare the screen with the one that is kept; WRITE_SCREENS=1 keeps this one."""
        if os.environ.get("WRITE_SCREENS"):
            kept.write_text(self.text)
        assert self.text == kept.read_text()


@asynccontextmanager
async def watching(
    plane: Plane,
    size: tuple[int, int] = (80, 24),
    *,
    hint: Callable[[Refused], str | None] = lambda _: None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    pace: Pace = QUICK,
) -> AsyncIterator[Terminal]:
    """A dashboard that has looked for the first time."""
    app = Dash(plane, hint=hint, now=now, pace=pace)
    async with app.run_test(size=size) as pilot:
        terminal = Terminal(app, pilot)
        await terminal.until(lambda: app.seen_at is not None or app.away is not None)
        await pilot.pause()
        yield terminal
