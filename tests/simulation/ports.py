"""Simulated ports of the coordinator: clock, ids and blobs, deterministic per seed."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta

from gigafactory.domain.errors import NotFound
from gigafactory.system.clock import EPOCH, MILLISECOND_NS, SystemClock
from tests.support.builders import NOON

MILLISECOND = timedelta(milliseconds=1)


def simulated_clock(offset: Callable[[], float], not_before: datetime) -> SystemClock:
    """Return the real clock on a wall clock with an offset to the loop's time, in seconds."""
    loop = asyncio.get_running_loop()

    def wall() -> int:
        # In whole milliseconds, so that the arithmetic of times is exact.
        wall_time = NOON + int((loop.time() + offset()) * 1000) * MILLISECOND
        return (wall_time - EPOCH) // MILLISECOND * MILLISECOND_NS

    def steady() -> int:
        return int(loop.time() * 1000) * MILLISECOND_NS

    return SystemClock(not_before=not_before, wall=wall, steady=steady)


class SeededIds:
    """Ids that sort by creation, and secrets that are determined by the seed."""

    def __init__(self, rng: random.Random, origin: str) -> None:
        """Create ids that no other origin creates."""
        self._rng = rng
        self._origin = origin
        self._count = 0

    def new(self, now: datetime) -> str:
        self._count += 1
        return f"{int((now - NOON) / MILLISECOND):09d}-{self._count:04d}-{self._origin}"

    def secret(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        """Start empty."""
        self._data: dict[str, bytes] = {}

    async def put_new(self, key: str, data: bytes) -> bool:
        await asyncio.sleep(0)
        if key in self._data:
            return False
        self._data[key] = data
        return True

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        data = b"".join([piece async for piece in pieces])
        assert await self.put_new(key, data), f"a key that exists already: {key}"

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        await asyncio.sleep(0)
        found = sorted(key for key in self._data if key.startswith(prefix) and key > after)
        return {key: len(self._data[key]) for key in found}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        if key not in self._data:
            raise NotFound("blob", key)
        yield self._data[key][start:]

    async def delete(self, prefix: str) -> int:
        await asyncio.sleep(0)
        deleted = [key for key in self._data if key.startswith(prefix)]
        for key in deleted:
            del self._data[key]
        return len(deleted)
