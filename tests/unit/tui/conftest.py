"""Shared fixtures of the dashboard tests: UTC and a fixed time."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gigafactory.domain.errors import Refused
from tests.support import terminal as terminals
from tests.support.builders import NOON
from tests.support.scripted_source import ScriptedSource
from tests.support.terminal import Terminal

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Show local times in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def stored_screen(name: str) -> Path:
    """Return the path of a stored screen."""
    return SCREENS / f"{name}.txt"


@asynccontextmanager
async def watching(
    source: ScriptedSource,
    size: tuple[int, int] = (80, 24),
    hint: Callable[[Refused], str | None] = lambda _: None,
) -> AsyncIterator[Terminal]:
    """Run a dashboard whose clock stands at noon."""
    async with terminals.watching(source, size, hint=hint, now=lambda: NOON) as terminal:
        yield terminal
