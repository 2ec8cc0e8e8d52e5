"""Records of learned routing."""

from typing import Annotated

from msgspec import Meta

from gigafactory.domain.insights.routing_rollout import EXPLORED_MAX, RolloutMode
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp


class ArmView(ResponseView, frozen=True, kw_only=True):
    """What one side of a comparison came to."""

    tries: int
    """First tries of jobs."""
    passes: int
    priced: int
    """Those whose cost is known."""


class GuardrailsView(ResponseView, frozen=True, kw_only=True):
    """How strong the evidence of harm is, as a part of what is needed: at 1 it is switched back."""

    success: float
    cost: float


class TrippedView(ResponseView, frozen=True, kw_only=True):
    """A guardrail that has switched a product back."""

    guardrail: str
    mode: RolloutMode
    """The one that it was switched back from."""
    at: Timestamp
    reason: str


class RolloutView(ResponseView, frozen=True, kw_only=True):
    """How far what was learned decides for a product, and how it compares."""

    product_id: str
    mode: RolloutMode
    share: float
    explore: float
    since: Timestamp | None
    by: str
    learned: ArmView
    usual: ArmView
    guardrails: GuardrailsView
    tripped: TrippedView | None


class ChangeView(ResponseView, frozen=True, kw_only=True):
    """How much more of something, and the range that holds it 95 times in a hundred."""

    more: float
    low: float
    high: float


class RecommendationView(ResponseView, frozen=True, kw_only=True):
    """A choice that does clearly better than the present mix for some jobs."""

    product_id: str
    repo: str | None
    profile: str | None
    engine: str
    factory_id: str | None
    """Null: wherever the engine is."""
    tries: int
    others: int
    success: ChangeView
    """In shares: 0.1 is ten points more."""
    time: ChangeView
    """As a part: -0.1 is ten per cent less."""
    cost: ChangeView | None
    told: str
    """All of it as a sentence."""


class RoutingView(ResponseView, frozen=True, kw_only=True):
    """What was learned, how far it decides, and what it recommends."""

    tries: int
    """First tries that were learned from."""
    rollouts: tuple[RolloutView, ...]
    recommendations: tuple[RecommendationView, ...]


class IntervalView(ResponseView, frozen=True, kw_only=True):
    """An estimate, with the range that holds it 95 times in a hundred."""

    share: float
    low: float
    high: float


class EstimateView(ResponseView, frozen=True, kw_only=True):
    """What a way of choosing would have come to."""

    policy: str
    matches: int
    """Jobs for which the lot chose as it might have."""
    ips: IntervalView
    """Share of first-pass successes, by inverse propensity weights."""
    snips: IntervalView
    """The same over the sum of the weights."""
    doubly_robust: IntervalView
    """The same from what was expected, corrected by what came out."""
    seconds: float | None
    cost_usd: float | None


class EvaluationView(ResponseView, frozen=True, kw_only=True):
    """The ways of choosing side by side, and what may be concluded from that."""

    episodes: int
    """Jobs that explored, and whose first try has ended."""
    estimates: tuple[EstimateView, ...]
    gain: IntervalView | None
    """In success, of what was learned over the usual rules; null where too little is known."""
    concludes: bool
    told: str


class RolloutDoc(RequestDoc, frozen=True, kw_only=True):
    """How far what was learned decides."""

    mode: RolloutMode
    """`off`, `shadow` (recorded, not acted on), `ab` (a share of jobs) or `on`."""
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """The share of jobs that go by it; usually 0.5 with `ab`, 0.9 with `on`."""
    explore: Annotated[float, Meta(ge=0, le=EXPLORED_MAX)] | None = None
    """The share of jobs that try something else; usually 0.05, and none in `shadow`."""
