"""Records of learned routing."""

from typing import Annotated

from msgspec import Meta

from gigafactory.domain.insights.routing_rollout import EXPLORED_MAX, RolloutMode
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp


class ArmView(ResponseView, frozen=True, kw_only=True):
    """Results of one side of a comparison."""

    tries: int
    """First attempts of jobs."""
    passes: int
    priced: int
    """Attempts with known cost."""


class GuardrailsView(ResponseView, frozen=True, kw_only=True):
    """Evidence of harm, 0 to 1; at 1 the rollout is switched back."""

    success: float
    cost: float


class TrippedView(ResponseView, frozen=True, kw_only=True):
    """A guardrail that has switched a product back."""

    guardrail: str
    mode: RolloutMode
    """The mode that it was switched back from."""
    at: Timestamp
    reason: str


class RolloutView(ResponseView, frozen=True, kw_only=True):
    """Rollout of learned routing for a product, with its comparison."""

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
    """A change with its 95 % interval."""

    more: float
    low: float
    high: float


class RecommendationView(ResponseView, frozen=True, kw_only=True):
    """An engine and factory that do clearly better than the current mix for some jobs."""

    product_id: str
    repo: str | None
    profile: str | None
    engine: str
    factory_id: str | None
    """Null: any factory with the engine."""
    tries: int
    others: int
    success: ChangeView
    """Absolute: 0.1 is ten percentage points more."""
    time: ChangeView
    """Relative: -0.1 is ten per cent less."""
    cost: ChangeView | None
    told: str
    """Summary sentence."""


class RoutingView(ResponseView, frozen=True, kw_only=True):
    """Learned routing: rollouts and recommendations."""

    tries: int
    """Number of first attempts used for training."""
    rollouts: tuple[RolloutView, ...]
    recommendations: tuple[RecommendationView, ...]


class IntervalView(ResponseView, frozen=True, kw_only=True):
    """An estimate with its 95 % interval."""

    share: float
    low: float
    high: float


class EstimateView(ResponseView, frozen=True, kw_only=True):
    """Off-policy estimate of one policy."""

    policy: str
    matches: int
    """Jobs whose random choice agrees with the policy."""
    ips: IntervalView
    """First-pass success rate, by inverse propensity scoring."""
    snips: IntervalView
    """The same, self-normalised."""
    doubly_robust: IntervalView
    """The same, by the doubly robust estimator."""
    seconds: float | None
    cost_usd: float | None


class EvaluationView(ResponseView, frozen=True, kw_only=True):
    """Off-policy evaluation of all policies, and its conclusion."""

    episodes: int
    """Exploring jobs whose first attempt has ended."""
    estimates: tuple[EstimateView, ...]
    gain: IntervalView | None
    """Gain in success rate over the default rules; null without enough data."""
    concludes: bool
    told: str


class RolloutDoc(RequestDoc, frozen=True, kw_only=True):
    """Rollout of learned routing."""

    mode: RolloutMode
    """`off`, `shadow` (recorded, not acted on), `ab` (a share of jobs) or `on`."""
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """Share of jobs routed by it; default 0.5 with `ab`, 0.9 with `on`."""
    explore: Annotated[float, Meta(ge=0, le=EXPLORED_MAX)] | None = None
    """Share of jobs that explore; default 0.05, 0 in `shadow`."""
