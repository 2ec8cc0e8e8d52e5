"""Records of dispatch modes and shadow comparisons."""

from gigafactory.domain.tenancy.dispatch_mode import ComparisonOutcome, DispatchMode
from gigafactory.wire.fields import RequestDoc, ResponseView, Timestamp


class PlacingView(ResponseView, frozen=True, kw_only=True):
    """A placement of a job on a factory, with its score."""

    factory_id: str
    engine: str | None
    score: float


class DifferenceView(ResponseView, frozen=True, kw_only=True):
    """A shadow decision that differs from the real placement."""

    job_id: str
    outcome: ComparisonOutcome
    at: Timestamp
    shadow: PlacingView | None
    """The dispatcher's choice; null: none."""
    real: PlacingView | None
    """The factory that claimed it; null: none in time."""


class ComparisonView(ResponseView, frozen=True, kw_only=True):
    """Result of a product's latest shadow period so far."""

    since: Timestamp
    decisions: int
    agreement: float
    """Share of decisions that agree, 0 to 1."""
    agree: int
    """The same factory with the same engine, or one as good by the same score."""
    same: int
    """Agreeing decisions with the same factory."""
    diverge: int
    only_shadow: int
    """Offered by the dispatcher, but not claimed in time."""
    only_real: int
    """Claimed, but not offered by the dispatcher."""
    conclusive: bool
    """Whether the dispatcher may take over."""
    differences: tuple[DifferenceView, ...]
    """The newest differences, latest first."""


class ProductDispatchView(ResponseView, frozen=True, kw_only=True):
    """Dispatch mode of a product."""

    product_id: str
    mode: DispatchMode
    """`push`: offered; `pull`: claimed; `shadow`: claimed, with offers only compared."""
    comparison: ComparisonView | None


class ShadowView(ResponseView, frozen=True, kw_only=True):
    """Dispatch modes, and what `push` requires."""

    decisions_needed: int
    agreement_needed: float
    products: tuple[ProductDispatchView, ...]


class DispatchModeDoc(RequestDoc, frozen=True, kw_only=True):
    """The dispatch mode to set."""

    mode: DispatchMode
    force: bool = False
    """Switch to `push` even without a conclusive comparison."""
