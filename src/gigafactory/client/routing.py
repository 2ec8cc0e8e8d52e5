"""The calls on learned routing."""

from datetime import datetime

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.answers import Answer


class Arm(Answer, frozen=True):
    """What one side of a comparison came to."""

    tries: int
    passes: int


class Guardrails(Answer, frozen=True):
    """How strong the evidence of harm is: at 1 a product is switched back."""

    success: float
    cost: float


class Tripped(Answer, frozen=True):
    """A guardrail that has switched a product back."""

    mode: str
    at: datetime
    reason: str


class Rollout(Answer, frozen=True):
    """How far what was learned decides for a product."""

    product_id: str
    mode: str
    share: float
    explore: float
    learned: Arm
    usual: Arm
    guardrails: Guardrails
    tripped: Tripped | None


class Recommendation(Answer, frozen=True):
    """What does clearly better than the present mix."""

    product_id: str
    told: str


class Routing(Answer, frozen=True):
    """What was learned, how far it decides, and what it recommends."""

    tries: int
    rollouts: tuple[Rollout, ...]
    recommendations: tuple[Recommendation, ...]


class Odds(Answer, frozen=True):
    """An estimate, with the range that holds it 95 times in a hundred."""

    share: float
    low: float
    high: float


class Estimate(Answer, frozen=True):
    """What a way of choosing would have come to."""

    policy: str
    matches: int
    ips: Odds
    snips: Odds
    doubly_robust: Odds
    seconds: float | None
    cost_usd: float | None


class Evaluation(Answer, frozen=True):
    """The ways of choosing side by side, and what may be concluded from that."""

    episodes: int
    estimates: tuple[Estimate, ...]
    concludes: bool
    told: str


def evaluation() -> Call[Evaluation]:
    """What the ways of choosing would have come to."""
    return Call(method="GET", path=path("routing", "eval"), answer=Evaluation)


def routing() -> Call[Routing]:
    """What is recommended, and how each product is routed."""
    return Call(method="GET", path=path("routing"), answer=Routing)


def turn(
    product_id: str, mode: str, *, share: float | None = None, explore: float | None = None
) -> Call[Rollout]:
    """Set how far what was learned decides for a product."""
    told = {"mode": mode, "share": share, "explore": explore}
    where = path("routing", product_id)
    return Call(method="PUT", path=where, answer=Rollout, body=msgspec.json.encode(told))
