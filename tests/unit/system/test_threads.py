"""Resources opened in a thread are never left open, even if the caller stops waiting."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from gigafactory.system.threads import open_in_thread


class Thing:
    """A resource that is open until it is closed."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


@dataclass
class Slow:
    """Opens a resource, or fails, once `go_on` is set."""

    error: OSError | None = None
    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    thing: Thing = field(default_factory=Thing)

    def __call__(self) -> Thing:
        self.begun.set()
        self.go_on.wait()
        if self.error is not None:
            raise self.error
        return self.thing


async def withdrawn(slow: Slow) -> None:
    waiting = asyncio.ensure_future(open_in_thread(slow))
    await asyncio.to_thread(slow.begun.wait)
    waiting.cancel()
    slow.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_opened_resource_is_returned_to_its_caller() -> None:
    slow = Slow()
    slow.go_on.set()
    assert (await open_in_thread(slow)).is_open


async def test_error_is_raised_in_the_caller() -> None:
    slow = Slow(OSError("gone"))
    slow.go_on.set()
    with pytest.raises(OSError, match="gone"):
        await open_in_thread(slow)


async def test_resource_is_closed_if_its_caller_no_longer_waits() -> None:
    slow = Slow()
    await withdrawn(slow)
    assert not slow.thing.is_open


async def test_error_is_ignored_if_its_caller_no_longer_waits() -> None:
    slow = Slow(OSError("gone"))
    await withdrawn(slow)
    assert slow.thing.is_open, "what was never opened is not closed"
