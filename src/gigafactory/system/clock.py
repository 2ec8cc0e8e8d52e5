"""Clocks that run at an even speed, whatever happens to the wall clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND_NS = 1_000_000
FRESH_NS = MILLISECOND_NS // 2
"""How long a reading of both clocks counts: a busy server asks for the time very often."""
SECOND_NS = 1_000_000_000
SLEW = 100
"""One part in so many: how much faster or slower the time may run to approach the wall clock."""
STEP_MIN_NS = SECOND_NS
"""A step of the wall clock that is worth a message."""
JUMP_MIN_NS = 300 * SECOND_NS
"""A wall clock that is further ahead is followed at once: the machine was asleep, or set."""

Nanoseconds = Callable[[], int]

log = structlog.get_logger()


since_boot_ns: Nanoseconds = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)
"""Return the nanoseconds since boot, by a clock that is never set and counts during sleep."""


class SystemClock:
    """The time in UTC, to the millisecond: it starts at the wall clock and never goes back.

    It advances with the time since boot, so that no step of the wall clock can stretch a lease or
    a back-off, and approaches the wall clock slowly.
    """

    def __init__(
        self,
        *,
        not_before: datetime = EPOCH,
        wall: Nanoseconds = time.time_ns,
        steady: Nanoseconds = since_boot_ns,
    ) -> None:
        """Start at `not_before`, the last known time, if the wall clock is behind it."""
        self._wall = wall
        self._steady = steady
        self._steady_at = steady()
        self._offset = wall() - self._steady_at
        self._now = max(wall(), _to_ns(not_before))
        self._last = self._to_millis()
        if self._now - wall() >= STEP_MIN_NS:
            log.warning(
                "the wall clock is behind the last stored time; going on from that: set the clock",
                behind_s=(self._now - wall()) / SECOND_NS,
            )

    def now(self) -> datetime:
        """Return the time."""
        steady = self._steady()
        if steady - self._steady_at >= FRESH_NS:
            self._advance(steady)
        return self._last

    def advance_to(self, at: datetime) -> None:
        """Go on from `at`, a time that others have reached, if this clock is behind it."""
        self._advance(self._steady())
        behind = _to_ns(at) - self._now
        if behind >= STEP_MIN_NS:
            log.warning("this clock stood still; going on with the others", by_s=behind / SECOND_NS)
        self._now += max(0, behind)
        self._last = self._to_millis()

    def _advance(self, steady: int) -> None:
        wall = self._wall()
        elapsed, self._steady_at = steady - self._steady_at, steady
        step, self._offset = wall - steady - self._offset, wall - steady
        if abs(step) >= STEP_MIN_NS:
            log.warning("the wall clock was set; no lease is affected", by_s=step / SECOND_NS)
        self._now += elapsed
        ahead = wall - self._now
        if ahead > JUMP_MIN_NS:
            self._now = wall
        else:
            limit = elapsed // SLEW
            self._now += max(-limit, min(ahead, limit))
        self._last = self._to_millis()

    def _to_millis(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self._now // MILLISECOND_NS)


def _to_ns(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000
