"""The calls on ways of dispatch."""

from datetime import datetime

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.answers import Answer


class Placing(Answer, frozen=True):
    """One job on one factory."""

    factory_id: str
    engine: str | None
    score: float


class Difference(Answer, frozen=True):
    """A decision in shadow that did not agree with what really happened."""

    job_id: str
    outcome: str
    at: datetime
    shadow: Placing | None
    real: Placing | None


class Comparison(Answer, frozen=True):
    """What a product's last time in shadow came to so far."""

    since: datetime
    decisions: int
    agreement: float
    agree: int
    same: int
    diverge: int
    only_shadow: int
    only_real: int
    conclusive: bool
    differences: tuple[Difference, ...]


class Dispatched(Answer, frozen=True):
    """How a product's jobs reach factories."""

    product_id: str
    mode: str
    comparison: Comparison | None


class Shadow(Answer, frozen=True):
    """Every product, and what it takes for the dispatcher to take over."""

    decisions_needed: int
    agreement_needed: float
    products: tuple[Dispatched, ...]


def shadow() -> Call[Shadow]:
    """How products' jobs reach factories, and how the ways compare."""
    return Call(method="GET", path=path("shadow"), answer=Shadow)


def turn(product_id: str, mode: str, *, force: bool = False) -> Call[Dispatched]:
    """Set how a product's jobs reach factories."""
    told = {"mode": mode, "force": force}
    where = path("shadow", product_id)
    return Call(method="PUT", path=where, answer=Dispatched, body=msgspec.json.encode(told))
