"""The clock of the database, shared by coordinators whose own clocks differ."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from gigafactory.system.clock import EPOCH, SECOND_NS, Nanoseconds, SystemClock, since_boot_ns

SteadyClock = Callable[[], float]


class DatabaseClock:
    """The database's time, computed from this machine's steady clock and a measured offset."""

    def __init__(
        self, offset: Callable[[SteadyClock], Awaitable[float]], steady: Nanoseconds
    ) -> None:
        self._measure = offset
        self._steady = steady
        self._offset_ns = 0
        self._clock: SystemClock | None = None

    @classmethod
    async def start(
        cls,
        offset: Callable[[SteadyClock], Awaitable[float]],
        *,
        not_before: datetime = EPOCH,
        steady: Nanoseconds = since_boot_ns,
    ) -> "DatabaseClock":
        """Return a clock with a measured offset; call `measure_offset` from time to time.

        It starts at `not_before`, the last known time, if the database's clock is behind it.
        Raises Unavailable.
        """
        clock = cls(offset, steady)
        await clock.measure_offset()
        clock._clock = SystemClock(not_before=not_before, wall=clock._database_ns, steady=steady)
        return clock

    def _database_ns(self) -> int:
        return self._steady() + self._offset_ns

    async def measure_offset(self) -> None:
        """Measure the offset again.

        Raises Unavailable and keeps the last offset.
        """
        measured = await self._measure(lambda: self._steady() / SECOND_NS)
        self._offset_ns = round(measured * SECOND_NS)

    def advance_to(self, at: datetime) -> None:
        """Go on from `at`, which another coordinator has reached, if this clock is behind it.

        A machine that was suspended comes back with a steady clock that stood still.
        """
        assert self._clock is not None, "`start` makes the clock"
        self._clock.advance_to(at)

    def now(self) -> datetime:
        """Return the current time in UTC, in whole milliseconds, never going back."""
        assert self._clock is not None, "`start` makes the clock"
        return self._clock.now()
