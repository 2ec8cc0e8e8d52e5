"""A run that stops while a file of it is being copied leaves no open copy behind."""

import asyncio
import threading
from pathlib import Path

import pytest

from gigafactory.factory.captured import Captured, NotCaptured
from gigafactory.factory.phases import artifacts

MIB = 1 << 20


class Slow:
    """Captures when it is told to; what it made is remembered."""

    def __init__(self, folder: Path, error: NotCaptured | None = None) -> None:
        self.folder = folder
        self.error = error
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.made: list[Captured] = []

    def __call__(self, _tree: Path, name: str, *_more: object, **_limits: int) -> Captured:
        self.begun.set()
        self.go_on.wait()
        if self.error is not None:
            raise self.error
        self.made.append(Captured(name, self.folder))
        return self.made[-1]


async def withdrawn(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "capture", slow)
    waiting = asyncio.ensure_future(artifacts.captured(slow.folder, "x", (), slow.folder, MIB))
    await asyncio.to_thread(slow.begun.wait)
    waiting.cancel()
    slow.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_copy_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(tmp_path)
    await withdrawn(slow, monkeypatch)
    with pytest.raises(ValueError, match="closed"):
        list(slow.made[0].pieces())


async def test_what_could_not_be_copied_is_nobodys_news_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(tmp_path, NotCaptured("it is no plain file"))
    await withdrawn(slow, monkeypatch)
    assert slow.made == []
