"""Confidence intervals of rates."""

import math
from typing import NamedTuple

_Z = 1.96
"""Standard deviations of a 95 % interval of the normal distribution."""


class Interval(NamedTuple):
    """An estimate with its 95 % confidence interval."""

    share: float
    low: float
    high: float


def wilson_interval(passes: int, tries: int) -> Interval | None:
    """Return the Wilson score interval of a pass rate, also valid for few tries; None for none."""
    if not tries:
        return None
    share, square = passes / tries, _Z * _Z
    middle = share + square / (2 * tries)
    wide = _Z * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    scale = 1 + square / tries
    return Interval(share, max(0.0, (middle - wide) / scale), min(1.0, (middle + wide) / scale))
