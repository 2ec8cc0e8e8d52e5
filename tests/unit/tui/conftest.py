"""What the tests of the dashboard share: times of day, and noon."""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gigafactory.domain.errors import Refused
from tests.support import terminal as terminals
from tests.support.builders import NOON
from tests.support.scripted_source import ScriptedPlane
from tests.support.terminal import Terminal

SCREENS = Path(__file__).parent / "screens"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day are those of the reader: here they are UTC's."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def kept(name: str) -> Path:
    """A screen as it is to look."""
    return SCREENS / f"{name}.txt"


@asynccontextmanager
async def watching(
    plane: ScriptedPlane,
    size: tuple[int, int] = (80, 24),
    hint: Callable[[Refused], str | None] = lambda _: None,
) -> AsyncIterator[Terminal]:
    """A dashboard that looks at noon."""
    async with terminals.watching(plane, size, hint=hint, now=lambda: NOON) as terminal:
        yield terminal
