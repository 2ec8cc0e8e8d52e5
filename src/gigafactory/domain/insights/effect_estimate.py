"""Estimate how much better a choice does than others, within strata of comparable jobs."""

import math
from collections.abc import Iterable
from typing import NamedTuple

TRIES_MIN = 20
"""Fewer first attempts of the choice or of the others support no estimate."""
LIKELY_SHARE = 0.1
LIKELY_LOG = 0.3
"""Prior scale of differences between choices, in success rate and in logarithms (shrinkage)."""
_Z = 1.96
_BEYOND_DOUBT = 3.0
"""Standard deviations for significance: many comparisons are made, so stricter than 95 %."""
TO = "\u2013"
"""The dash between the two ends of a range."""


class EffectEstimate(NamedTuple):
    """An estimated difference, with its 95 % interval."""

    more: float
    low: float
    high: float
    sure: bool
    """Whether the difference is significant."""

    def reversed(self) -> "EffectEstimate":
        """Return the difference as seen from the other side."""
        return EffectEstimate(-self.more, -self.high, -self.low, self.sure)


class SampleSums(NamedTuple):
    """Count, sum and sum of squares of a metric."""

    tries: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """The mean."""
        return self.total / self.tries

    @property
    def around(self) -> float:
        """The sum of squared deviations from the mean."""
        return max(0.0, self.squares - self.total * self.mean)


def estimate_effect(
    strata: Iterable[tuple[SampleSums, SampleSums]], likely: float, *, part: float = 1.0
) -> EffectEstimate | None:
    """Return the difference of a choice from others; None with too few comparable attempts.

    Each pair holds the attempts of the choice and of the others at comparable jobs: small jobs are
    quick with any engine. `likely` is the prior scale of differences. `part` scales the difference:
    the share of the others gives the difference from the mix that the choice is part of.
    """
    both = [(one, other) for one, other in strata if one.tries and other.tries]
    counts = sum(one.tries for one, _ in both), sum(other.tries for _, other in both)
    if min(counts) < TRIES_MIN:
        return None
    weights = [one.tries * other.tries / (one.tries + other.tries) for one, other in both]
    differences = [one.mean - other.mean for one, other in both]
    weight = sum(weights)
    more = sum(w * d for w, d in zip(weights, differences, strict=True)) / weight
    around = sum(one.around + other.around for one, other in both)
    # The prior keeps the variance above 0 when all outcomes are equal.
    scatter = (around + likely) / (sum(counts) - 2 * len(both) + 1)
    # A choice that is better in some strata and worse in others is less certain.
    uneven = sum((w * (d - more)) ** 2 for w, d in zip(weights, differences, strict=True))
    variance = max(scatter / weight, uneven / weight**2)
    return _pooled(part * more, part * part * variance, likely)


def _pooled(more: float, variance: float, likely: float) -> EffectEstimate:
    """Return a difference shrunk towards 0 by its variance (partial pooling)."""
    held = likely * likely / (likely * likely + variance)
    more, spread = held * more, math.sqrt(held * variance)
    wide = _Z * spread
    return EffectEstimate(more, more - wide, more + wide, sure=abs(more) > _BEYOND_DOUBT * spread)
