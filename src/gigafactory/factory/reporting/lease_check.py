"""The word that a lease is ours: asked for right before an effect outside, and only while fresh."""

import time

from gigafactory.domain.errors import Unavailable
from gigafactory.factory.reporting.reporter import Reporter

FRESH_S = 2.0
"""So old the word may be; every lease lasts longer."""
TRIES = 10


async def confirm_lease(reporter: Reporter) -> bool:
    """Whether the lease is this run's, from the one who knows, and at this very moment.

    Whoever was stopped after the answer asks again: the lease may be another's by now.
    Raises Unavailable when no answer comes in time.
    """
    for _ in range(TRIES):
        asked_at = _now()
        if not await reporter.confirm_lease():
            return False
        if _now() - asked_at <= FRESH_S:
            return True
    raise Unavailable("the coordinator answers too slowly to be sure of the lease")


def _now() -> float:
    """Seconds that go on while this machine sleeps, where the system counts them."""
    if not hasattr(time, "clock_gettime"):
        return time.monotonic()
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
