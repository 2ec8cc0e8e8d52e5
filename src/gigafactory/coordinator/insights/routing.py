"""Learned routing: rollout mode of each product, recommendations and evaluation."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.learner import Learner
from gigafactory.coordinator.insights.observations import ObservationReader
from gigafactory.domain.insights.exploration import Episode
from gigafactory.domain.insights.off_policy import PolicyEvaluation, evaluate_policies
from gigafactory.domain.insights.recommendation import Recommendation, find_recommendations
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout, set_rollout
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.domain.tenancy.product import Product

TOLD_MAX = 50
EPISODES_MAX = 20_000
"""Exploration episodes evaluated per product at most, newest first."""


class RoutingAdvice(msgspec.Struct, frozen=True):
    """Rollout of each product, and recommendations to improve the current mix."""

    rollouts: Sequence[RoutingRollout]
    tries: int
    """First attempts observed in the caller's products."""
    recommended: Sequence[Recommendation]
    """Best first, up to the maximum."""


class RoutingService:
    """Reads and sets the rollout of learned routing; a product without a rollout is off."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        observations: ObservationReader,
        learner: Learner,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._observations = observations
        self._learner = learner

    async def advise(self, caller: Caller) -> RoutingAdvice:
        """Return rollouts and recommendations for the caller's chosen or visible products."""
        caller.require("read", OWN_PRODUCTS)
        observations = await self._observations.read_visible(caller)
        return RoutingAdvice(
            rollouts=await self.list_rollouts(caller),
            tries=sum(observation.tries for _, observation in observations),
            recommended=find_recommendations(observations)[:TOLD_MAX],
        )

    async def list_rollouts(self, caller: Caller) -> Sequence[RoutingRollout]:
        """Return all rollouts of the caller's chosen or visible products."""
        rollouts = await all_records(self._store, RoutingRollout)
        return [each for each in rollouts if caller.covers(each.product_id)]

    async def evaluate(self, caller: Caller) -> PolicyEvaluation:
        """Evaluate routing policies offline, from jobs that explored."""
        caller.require("read", OWN_PRODUCTS)
        episodes: list[Episode] = []
        for product_id in {each.product_id for each in await self.list_rollouts(caller)}:
            stored = await all_records(self._store, Episode, prefix=f"{product_id}/")
            episodes += stored[-EPISODES_MAX:]
        return evaluate_policies(episodes)

    async def set_mode(
        self,
        caller: Caller,
        product_id: str,
        mode: RolloutMode,
        *,
        share: float | None = None,
        explore: float | None = None,
    ) -> RoutingRollout:
        """Set the mode of learned routing for a product.

        Raises Forbidden, NotFound.
        """
        caller.require_product("routing", product_id)

        async def decide() -> Plan[RoutingRollout]:
            now = self._clock.now()
            before = await self._store.record(RoutingRollout, product_id)
            after = set_rollout(
                before, product_id, mode, by=caller.actor, now=now, share=share, explore=explore
            )
            data = {"mode": mode, "share": after.share, "explore": after.explore}
            event = audit_event(event_types.ROUTING_CHANGED, caller.actor, now, data, (product_id,))
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
        """Return the write that marks the product as routed, if missing: coordinators load it."""
        stored = await self._store.record(Product, product_id)
        if stored is not None and stored.uses_learned_routing:
            return ()
        product = stored or Product(id=product_id, rev=0)
        return (
            RecordChange(
                before=stored,
                after=replace(product, uses_learned_routing=True, rev=product.rev + 1),
            ),
        )


def trip_event(routing: RoutingRollout, actor: str) -> Event:
    """Return the audit event of a guardrail that switched a product back."""
    trip = routing.tripped
    assert trip is not None, "called only after a guardrail has tripped"
    data = {
        "guardrail": trip.guardrail,
        "from": trip.mode,
        "mode": routing.mode,
        "reason": trip.reason,
    }
    return audit_event(event_types.ROUTING_TRIPPED, actor, trip.at, data, (routing.product_id,))
