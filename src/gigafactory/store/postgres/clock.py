"""The database's time, which coordinators with different clocks agree on."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

SteadyClock = Callable[[], float]

MILLISECOND_US = 1_000


def seconds_since_boot() -> float:
    """Return seconds of a clock that is never set and that counts while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class DatabaseClock:
    """Tells the database's time by this machine's steady clock and the offset between the two."""

    def __init__(
        self, offset: Callable[[SteadyClock], Awaitable[float]], steady: SteadyClock
    ) -> None:
        """Stand on a measurement that `started` makes first."""
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
        """A clock that `offset` has been measured for; it is to be measured again every so often.

        Raises Unavailable.
        """
        clock = cls(offset, steady)
        await clock.measure_offset()
        return clock

    async def measure_offset(self) -> None:
        """Measure the offset again.

        Raises Unavailable, and goes on with the last one.
        """
        self._offset = await self._measure(self._steady)

    def now(self) -> datetime:
        """This moment in UTC, to the millisecond, never going back."""
        told = datetime.fromtimestamp(self._steady() + self._offset, UTC)
        whole = told.replace(microsecond=told.microsecond // MILLISECOND_US * MILLISECOND_US)
        self._last = max(self._last, whole)
        return self._last
