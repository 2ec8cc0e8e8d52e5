"""How often runs fail through their factory's own fault, lately: one part of its health."""

from gigafactory.domain.job import Event, Result

WEIGHT = 0.2
"""What one run counts in the moving share: about the last five decide."""
OWN_FAULTS = frozenset({Result.CRASH, Result.SETUP_FAILED, Result.LOST})
ENDED_WELL = frozenset({"review_requested", "tested", "shipped"})
ENDED_BADLY = frozenset({"failed", "retry_scheduled", "dead_lettered"})


class Faults:
    """A moving share for each factory, from the events of its runs."""

    def __init__(self) -> None:
        """Begin with nobody at fault."""
        self._shares: dict[str, float] = {}

    def notice(self, event: Event) -> None:
        """Count a run that has ended."""
        if event.type == "lease_expired":
            self._count(str(event.data.get("factoryId")), fault=True)
        elif event.type in ENDED_WELL and event.actor.startswith("factory:"):
            self._count(event.actor.removeprefix("factory:"), fault=False)
        elif event.type in ENDED_BADLY and event.actor.startswith("factory:"):
            result = event.data.get("last") or event.data.get("result")
            self._count(event.actor.removeprefix("factory:"), fault=result in OWN_FAULTS)

    def _count(self, factory_id: str, *, fault: bool) -> None:
        before = self._shares.get(factory_id, 0.0)
        self._shares[factory_id] = before + WEIGHT * (float(fault) - before)

    def share(self, factory_id: str) -> float:
        """The recent share of a factory's runs that failed through its own fault, 0 to 1."""
        return self._shares.get(factory_id, 0.0)
