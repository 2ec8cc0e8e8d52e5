"""Dispatch modes: push, pull or shadow, and when a product may move from shadow to push."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict

COMPARISONS_MIN = 200
"""Minimum number of comparisons before a product may switch to push."""
AGREEMENT_MIN = 0.99
SCORE_TOLERANCE = 0.25
"""A factory whose score is lower by at most this counts as equally good."""
NOTICED_AFTER = timedelta(seconds=1)
"""A job claimed sooner than this is not compared: the dispatcher may not have seen it yet."""
DIFFERENCES_MAX = 20
"""Number of newest differences that are stored."""


class DispatchMode(StrEnum):
    """How a product's jobs reach factories."""

    PUSH = "push"
    """The dispatcher offers jobs to factories."""
    SHADOW = "shadow"
    """Factories claim jobs; the dispatcher's decisions are only compared with the claims."""
    PULL = "pull"
    """Factories claim jobs."""


class ComparisonOutcome(StrEnum):
    """The result of comparing a dispatcher decision with the actual claim."""

    AGREE = "agree"
    DIVERGE = "diverge"
    ONLY_SHADOW = "only_shadow"
    """The dispatcher would have offered the job; no factory claimed it in time."""
    ONLY_REAL = "only_real"
    """A factory claimed the job; the dispatcher would not have offered it to any factory."""


class ComparedPlacement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The factory and engine chosen for a job, with the score at that time."""

    factory_id: str
    engine: str | None
    score: float


class PlacementDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One comparison in which the dispatcher and the claim differ."""

    job_id: str
    outcome: ComparisonOutcome
    at: datetime
    shadow: ComparedPlacement | None = None
    real: ComparedPlacement | None = None


class OutcomeCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Comparison counts by outcome."""

    agree: int = 0
    same: int = 0
    """The part of `agree` with the very same factory and engine."""
    diverge: int = 0
    only_shadow: int = 0
    only_real: int = 0

    def add(self, other: "OutcomeCounts") -> "OutcomeCounts":
        """Return the sum of both counts."""
        names = OutcomeCounts.__struct_fields__
        return OutcomeCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def decisions(self) -> int:
        """The number of comparisons."""
        return self.agree + self.diverge + self.only_shadow + self.only_real

    @property
    def agreement(self) -> float:
        """The fraction of comparisons that agree; 0 without comparisons."""
        return self.agree / self.decisions if self.decisions else 0.0


class ShadowFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The results of some comparisons, to be added to the stored record."""

    counts: OutcomeCounts = OutcomeCounts()
    differences: tuple[PlacementDifference, ...] = ()

    def add(self, other: "ShadowFindings") -> "ShadowFindings":
        """Return both findings together, with the newest differences."""
        differences = (*self.differences, *other.differences)[-DIFFERENCES_MAX:]
        return ShadowFindings(counts=self.counts.add(other.counts), differences=differences)


class ShadowComparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The comparison results of a product since it entered shadow mode."""

    kind: ClassVar[str] = "comparison"
    expires_at: ClassVar[None] = None

    product_id: str
    since: datetime
    counts: OutcomeCounts = OutcomeCounts()
    differences: tuple[PlacementDifference, ...] = ()
    """The newest ones, oldest first."""
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one comparison per product."""
        return self.product_id

    def add_findings(self, findings: ShadowFindings) -> "ShadowComparison":
        """Return the comparison with more findings added."""
        both = ShadowFindings(counts=self.counts, differences=self.differences).add(findings)
        return replace(self, counts=both.counts, differences=both.differences, rev=self.rev + 1)

    @property
    def is_conclusive(self) -> bool:
        """Whether it has enough comparisons and enough agreement to switch to push."""
        return self.counts.decisions >= COMPARISONS_MIN and self.counts.agreement >= AGREEMENT_MIN


def compare_placements(
    job_id: str, shadow: ComparedPlacement | None, real: ComparedPlacement | None, *, now: datetime
) -> ShadowFindings:
    """Compare one decision with the actual claim.

    They agree on the same factory and engine, or on another factory with about the same score.
    """
    outcome = _outcome(shadow, real)
    same = _same(shadow, real)
    counts = OutcomeCounts(**{outcome: 1}, same=int(same))
    if outcome is ComparisonOutcome.AGREE:
        return ShadowFindings(counts=counts)
    difference = PlacementDifference(
        job_id=job_id, outcome=outcome, at=now, shadow=shadow, real=real
    )
    return ShadowFindings(counts=counts, differences=(difference,))


def _outcome(shadow: ComparedPlacement | None, real: ComparedPlacement | None) -> ComparisonOutcome:
    if shadow is None:
        return ComparisonOutcome.ONLY_REAL
    if real is None:
        return ComparisonOutcome.ONLY_SHADOW
    elsewhere = shadow.factory_id != real.factory_id
    as_good = elsewhere and real.score >= shadow.score - SCORE_TOLERANCE
    return ComparisonOutcome.AGREE if as_good or _same(shadow, real) else ComparisonOutcome.DIVERGE


def _same(shadow: ComparedPlacement | None, real: ComparedPlacement | None) -> bool:
    if shadow is None or real is None:
        return False
    return (shadow.factory_id, shadow.engine) == (real.factory_id, real.engine)


def require_cut_over(product_id: str, comparison: ShadowComparison | None) -> None:
    """Raise Conflict unless the shadow comparison of the product is conclusive."""
    if comparison is not None and comparison.is_conclusive:
        return
    counts = comparison.counts if comparison is not None else OutcomeCounts()
    raise Conflict(
        f"product {product_id} has {counts.decisions:,} comparisons at {counts.agreement:.1%}"
        f" agreement; switching to push needs {COMPARISONS_MIN} at {AGREEMENT_MIN:.0%}: keep it"
        " in shadow mode longer (`aq shadow` shows the differences), or force the switch"
    )
