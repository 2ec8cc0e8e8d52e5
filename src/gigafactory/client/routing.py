"""The calls on learned routing."""

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.routing import EvaluationView, RolloutView, RoutingView


def evaluation() -> Call[EvaluationView]:
    """What the ways of choosing would have come to."""
    return Call(method="GET", path=path("routing", "eval"), answer=EvaluationView)


def routing() -> Call[RoutingView]:
    """What is recommended, and how each product is routed."""
    return Call(method="GET", path=path("routing"), answer=RoutingView)


def turn(
    product_id: str, mode: str, *, share: float | None = None, explore: float | None = None
) -> Call[RolloutView]:
    """Set how far what was learned decides for a product."""
    told = {"mode": mode, "share": share, "explore": explore}
    where = path("routing", product_id)
    return Call(method="PUT", path=where, answer=RolloutView, body=msgspec.json.encode(told))
