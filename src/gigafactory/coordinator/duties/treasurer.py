"""The treasurer: stops running jobs of products whose budget is exhausted."""

from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.fleet.stop_running import TREASURER, StopRequests
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.tenancy.budget import AtCeiling


class Treasurer:
    """The duty that asks running jobs to hand back once a `stop` budget is exhausted."""

    def __init__(self, clock: Clock, index: Index, stops: StopRequests) -> None:
        self._clock = clock
        self._index = index
        self._stops = stops

    async def step(self) -> None:
        """Ask the running jobs of every product with an exhausted budget to hand back."""
        now = self._clock.now()
        exhausted = [
            budget
            for budget in self._index.budgets.values()
            if budget.terms.at_ceiling is AtCeiling.STOP and budget.is_exhausted(now)
        ]
        for budget in exhausted:
            await self._stops.send_to_product(
                TREASURER, budget.product_id, budget.stop_reason(now) or ""
            )
