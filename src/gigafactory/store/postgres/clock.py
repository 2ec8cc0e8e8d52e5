"""The clock of the database, shared by coordinators whose own clocks differ."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

SteadyClock = Callable[[], float]

MILLISECOND_US = 1_000


def seconds_since_boot() -> float:
    """Return the seconds since boot, by a clock that is never set and counts during sleep."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class DatabaseClock:
    """The database's time, computed from this machine's steady clock and a measured offset."""

    def __init__(
        self, offset: Callable[[SteadyClock], Awaitable[float]], steady: SteadyClock
    ) -> None:
        self._measure = offset
        self._steady = steady
        self._offset = 0.0
        self._last = datetime.fromtimestamp(0, UTC)

    @classmethod
    async def start(
        cls,
        offset: Callable[[SteadyClock], Awaitable[float]],
        *,
        steady: SteadyClock = seconds_since_boot,
    ) -> "DatabaseClock":
        """Return a clock with a measured offset; call `measure_offset` from time to time.

        Raises Unavailable.
        """
        clock = cls(offset, steady)
        await clock.measure_offset()
        return clock

    async def measure_offset(self) -> None:
        """Measure the offset again.

        Raises Unavailable and keeps the last offset.
        """
        self._offset = await self._measure(self._steady)

    def now(self) -> datetime:
        """Return the current time in UTC, in whole milliseconds, never going back."""
        exact = datetime.fromtimestamp(self._steady() + self._offset, UTC)
        whole = exact.replace(microsecond=exact.microsecond // MILLISECOND_US * MILLISECOND_US)
        self._last = max(self._last, whole)
        return self._last
