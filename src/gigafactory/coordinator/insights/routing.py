"""Routing: how far products let what was learned decide, and what it recommends."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.learner import Learner
from gigafactory.domain.errors import NotFound
from gigafactory.domain.insights.exploration import Episode
from gigafactory.domain.insights.off_policy import PolicyEvaluation, evaluate_policies
from gigafactory.domain.insights.recommendation import Recommendation, find_recommendations
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout, set_rollout
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.product import Product

TOLD_MAX = 50
EPISODES_MAX = 20_000
"""Of a product; the newest are looked at."""


class RoutingAdvice(msgspec.Struct, frozen=True):
    """How products are routed, and what would do better than the present mix."""

    rollouts: Sequence[RoutingRollout]
    tries: int
    """First tries that were learned from, of what the caller may see."""
    recommended: Sequence[Recommendation]
    """The best first; of very many, the first."""


class RoutingService:
    """The verbs `show` and `turn`; a product that nobody has turned on is off."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, index: Index, learner: Learner
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._learner = learner

    async def advise(self, caller: Caller) -> RoutingAdvice:
        """What was learned of the chosen product, or of all that the caller may see."""
        caller.require("read")
        known = await self._learner.current()
        seen = [
            (cell, one) for cell, one in known.cells.items() if _covers(caller, cell.task.product)
        ]
        return RoutingAdvice(
            rollouts=await self.list_rollouts(caller),
            tries=sum(lesson.tries for _, lesson in seen),
            recommended=find_recommendations(seen)[:TOLD_MAX],
        )

    async def list_rollouts(self, caller: Caller) -> Sequence[RoutingRollout]:
        """The rollouts that were ever turned on, of what the caller has chosen or may see."""
        found = await all_records(self._store, RoutingRollout)
        return [each for each in found if _covers(caller, each.product_id)]

    async def evaluate(self, caller: Caller) -> PolicyEvaluation:
        """What the ways of choosing would have come to, by the jobs that have explored."""
        caller.require("read")
        found: list[Episode] = []
        for product_id in {each.product_id for each in await self.list_rollouts(caller)}:
            kept = await all_records(self._store, Episode, prefix=f"{product_id}/")
            found += kept[-EPISODES_MAX:]
        return evaluate_policies(found)

    async def set_mode(
        self,
        caller: Caller,
        product_id: str,
        mode: RolloutMode,
        *,
        share: float | None = None,
        explore: float | None = None,
    ) -> RoutingRollout:
        """Set how far what was learned decides for a product.

        Raises Forbidden, NotFound.
        """
        caller.require("routing")
        if not caller.can_see(product_id):
            raise NotFound("product", product_id)

        async def decide() -> Plan[RoutingRollout]:
            now = self._clock.now()
            before = await self._store.record(RoutingRollout, product_id)
            after = set_rollout(
                before, product_id, mode, by=caller.actor, now=now, share=share, explore=explore
            )
            told = {"mode": mode, "share": after.share, "explore": after.explore}
            event = audit_event(event_types.ROUTING_CHANGED, caller.actor, now, told, product_id)
            saved = RecordChange(before=before, after=after, events=(event,))
            return Plan(after, (saved, *await self._mark_routed(product_id)))

        request = (product_id, mode, share, explore)
        routing = await self._committer.execute(
            caller, "routing", decide, RoutingRollout, request=request
        )
        await self._index.refresh(RoutingRollout, product_id)
        await self._learner.step()
        return routing

    async def _mark_routed(self, product_id: str) -> tuple[RecordChange, ...]:
        """The write by which every coordinator that starts looks the rollout up; once."""
        known = await self._store.record(Product, product_id)
        if known is not None and known.uses_learned_routing:
            return ()
        product = known or Product(id=product_id, rev=0)
        return (
            RecordChange(
                before=known, after=replace(product, uses_learned_routing=True, rev=product.rev + 1)
            ),
        )


def trip_event(routing: RoutingRollout, actor: str) -> Event:
    """The line of the audit log that tells of a guardrail which has switched a product back."""
    trip = routing.tripped
    assert trip is not None, "asked only when a guardrail has tripped"
    told = {
        "guardrail": trip.guardrail,
        "from": trip.mode,
        "mode": routing.mode,
        "reason": trip.reason,
    }
    return audit_event(event_types.ROUTING_TRIPPED, actor, trip.at, told, routing.product_id)


def _covers(caller: Caller, product_id: str) -> bool:
    return caller.can_see(product_id) and caller.product in (None, product_id)
