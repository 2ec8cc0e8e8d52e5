"""Calls on learned routing."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.domain.insights.routing_rollout import RolloutMode
from gigafactory.wire.routing import EvaluationView, RolloutDoc, RolloutView, RoutingView


def evaluation() -> ApiCall[EvaluationView]:
    """Return the off-policy evaluation of the routing policies."""
    return ApiCall(method="GET", path=path("routing", "eval"), response_type=EvaluationView)


def routing() -> ApiCall[RoutingView]:
    """Return routing recommendations and the rollout of each product."""
    return ApiCall(method="GET", path=path("routing"), response_type=RoutingView)


def set_rollout(
    product_id: str, mode: RolloutMode, *, share: float | None = None, explore: float | None = None
) -> ApiCall[RolloutView]:
    """Set the rollout mode of learned routing for a product."""
    doc = RolloutDoc(mode=mode, share=share, explore=explore)
    where = path("routing", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=RolloutView, body=msgspec.json.encode(doc)
    )
