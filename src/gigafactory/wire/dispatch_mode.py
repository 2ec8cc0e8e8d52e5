"""Records of dispatch modes and shadow comparisons."""

from gigafactory.domain.tenancy.dispatch_mode import ComparisonOutcome, DispatchMode
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp


class PlacingView(ResponseView, frozen=True, kw_only=True):
    """One job on one factory, and how good that was when it was decided."""

    factory_id: str
    engine: str | None
    score: float


class DifferenceView(ResponseView, frozen=True, kw_only=True):
    """A decision in shadow that did not agree with what really happened."""

    job_id: str
    outcome: ComparisonOutcome
    at: Timestamp
    shadow: PlacingView | None
    """Where the dispatcher would have had it; null: nowhere."""
    real: PlacingView | None
    """Who asked for it and got it; null: nobody in time."""


class ComparisonView(ResponseView, frozen=True, kw_only=True):
    """What a product's last time in shadow came to so far."""

    since: Timestamp
    decisions: int
    agreement: float
    """The share that agrees, 0 to 1."""
    agree: int
    """The same factory with the same engine, or one as good by the same score."""
    same: int
    """Of those that agree: the very same factory."""
    diverge: int
    only_shadow: int
    """It would have offered the job, and nobody asked for it in time."""
    only_real: int
    """Somebody got the job, and it had offered it to nobody."""
    conclusive: bool
    """Whether it lets the dispatcher take over."""
    differences: tuple[DifferenceView, ...]
    """The newest, the last one first."""


class ProductDispatchView(ResponseView, frozen=True, kw_only=True):
    """How a product's jobs reach factories."""

    product_id: str
    mode: DispatchMode
    """`push`: offered; `pull`: asked for; `shadow`: asked for, and offers are only compared."""
    comparison: ComparisonView | None


class ShadowView(ResponseView, frozen=True, kw_only=True):
    """Every product, and what it takes for the dispatcher to take over."""

    decisions_needed: int
    agreement_needed: float
    products: tuple[ProductDispatchView, ...]


class DispatchModeDoc(RequestDoc, frozen=True, kw_only=True):
    """How a product's jobs shall reach factories."""

    mode: DispatchMode
    force: bool = False
    """Whether the dispatcher takes over although it was not seen to decide as well."""
