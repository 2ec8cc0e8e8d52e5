"""Confirms the lease right before an external effect."""

import time

from gigafactory.domain.errors import Unavailable
from gigafactory.factory.reporting.reporter import Reporter

FRESH_S = 2.0
"""Maximum age of a confirmation; every lease lasts longer."""
TRIES = 10


async def confirm_lease(reporter: Reporter) -> bool:
    """Return whether this run holds the lease now, according to the coordinator.

    Asks again if the process was paused after the answer, because the lease may be lost meanwhile.
    Raises Unavailable if no answer arrives in time.
    """
    for _ in range(TRIES):
        asked_at = _now()
        if not await reporter.confirm_lease():
            return False
        if _now() - asked_at <= FRESH_S:
            return True
    raise Unavailable("the coordinator answers too slowly to confirm the lease")


def _now() -> float:
    """Monotonic seconds, including the time in which the machine sleeps if the system counts it."""
    if not hasattr(time, "clock_gettime"):
        return time.monotonic()
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
