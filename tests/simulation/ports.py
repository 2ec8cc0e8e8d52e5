"""The coordinator's ports without a world behind them: clock, names, blobs, all from a seed."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta

from gigafactory.domain.errors import NotFound
from gigafactory.system.clock import EPOCH, MILLISECOND_NS, SystemClock
from tests.support.builders import NOON

MILLISECOND = timedelta(milliseconds=1)


def simulated_clock(ahead: Callable[[], float], not_before: datetime) -> SystemClock:
    """The real clock on a machine whose wall clock is ahead of the loop by so many seconds."""
    loop = asyncio.get_running_loop()

    def wall() -> int:
        # In whole milliseconds, so that the arithmetic of times is exact.
        since_noon = NOON + int((loop.time() + ahead()) * 1000) * MILLISECOND
        return (since_noon - EPOCH) // MILLISECOND * MILLISECOND_NS

    def steady() -> int:
        return int(loop.time() * 1000) * MILLISECOND_NS

    return SystemClock(not_before=not_before, wall=wall, steady=steady)


class SeededIds:
    """Names that sort by creation, and secrets that are the same for the same seed."""

    def __init__(self, rng: random.Random, origin: str) -> None:
        """Make names that no other origin makes."""
        self._rng = rng
        self._origin = origin
        self._made = 0

    def new(self, now: datetime) -> str:
        self._made += 1
        return f"{int((now - NOON) / MILLISECOND):09d}-{self._made:04d}-{self._origin}"

    def secret(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


class MemoryBlobs:
    """Bytes in a dictionary."""

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: dict[str, bytes] = {}

    async def put_new(self, key: str, data: bytes) -> bool:
        await asyncio.sleep(0)
        if key in self._kept:
            return False
        self._kept[key] = data
        return True

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        data = b"".join([piece async for piece in pieces])
        assert await self.put_new(key, data), f"a key that exists already: {key}"

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        await asyncio.sleep(0)
        found = sorted(key for key in self._kept if key.startswith(prefix) and key > after)
        return {key: len(self._kept[key]) for key in found}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        if key not in self._kept:
            raise NotFound("blob", key)
        yield self._kept[key][start:]

    async def delete(self, prefix: str) -> int:
        await asyncio.sleep(0)
        gone = [key for key in self._kept if key.startswith(prefix)]
        for key in gone:
            del self._kept[key]
        return len(gone)
