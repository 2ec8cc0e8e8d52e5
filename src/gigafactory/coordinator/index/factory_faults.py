"""The recent rate of runs that failed through the fault of their factory; part of its health."""

from datetime import datetime, timedelta

from gigafactory.domain.job import event_types
from gigafactory.domain.job.job import Event, Result

WEIGHT = 0.2
"""Weight of the newest run in the moving average: about the last five runs decide."""
HALVED_AFTER = timedelta(minutes=5)
"""The rate decays over time: a factory that gets no jobs could not improve it otherwise."""
OWN_FAULTS = frozenset({Result.CRASH, Result.SETUP_FAILED, Result.LOST})
ENDED_WELL = frozenset({event_types.REVIEW_REQUESTED, event_types.TESTED, event_types.SHIPPED})
ENDED_BADLY = frozenset(
    {event_types.FAILED, event_types.RETRY_SCHEDULED, event_types.DEAD_LETTERED}
)


class FactoryFaultRates:
    """A moving average of faults per factory, fed by the events of its runs."""

    def __init__(self) -> None:
        self._shares: dict[str, tuple[float, datetime]] = {}

    def observe(self, event: Event) -> None:
        """Count the run that this event ends, if any."""
        if event.type == event_types.LEASE_EXPIRED:
            self._count(str(event.data.get("factoryId")), event.at, fault=True)
        elif event.type in ENDED_WELL and event.actor.startswith("factory:"):
            self._count(event.actor.removeprefix("factory:"), event.at, fault=False)
        elif event.type in ENDED_BADLY and event.actor.startswith("factory:"):
            result = event.data.get("last") or event.data.get("result")
            who = event.actor.removeprefix("factory:")
            self._count(who, event.at, fault=result in OWN_FAULTS)

    def _count(self, factory_id: str, at: datetime, *, fault: bool) -> None:
        before = self.rate(factory_id, at)
        self._shares[factory_id] = (before + WEIGHT * (float(fault) - before), at)

    def rate(self, factory_id: str, now: datetime) -> float:
        """Return the recent fault rate of a factory, 0 to 1."""
        share, since = self._shares.get(factory_id, (0.0, now))
        faded: float = 0.5 ** (max(now - since, timedelta(0)) / HALVED_AFTER)
        return share * faded
