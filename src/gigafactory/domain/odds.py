"""How sure a share is: what few tries can and cannot say of an engine."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from gigafactory.domain.insights import NONE, Rollup

TRIES_MIN = 20
"""Fewer first tries say nothing that anybody should act on."""
_Z = 1.96
"""Of a normal distribution: 95 in 100 lie within so many deviations."""


class Odds(NamedTuple):
    """A share with the range in which the true one lies, 95 times in a hundred."""

    share: float
    low: float
    high: float


class Advice(NamedTuple):
    """The engine whose work comes out well at once most often, and what can be said of it."""

    engine: str | None
    """None while no engine is clearly ahead of all others."""
    told: str


def odds(passes: int, tries: int) -> Odds | None:
    """A share of tries after Wilson, which holds for few tries too; None without any."""
    if not tries:
        return None
    share, square = passes / tries, _Z * _Z
    middle = share + square / (2 * tries)
    wide = _Z * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries))
    scale = 1 + square / tries
    return Odds(share, max(0.0, (middle - wide) / scale), min(1.0, (middle + wide) / scale))


def advice(engines: Iterable[Rollup]) -> Advice:
    """What the first tries of engines support: one that is ahead beyond doubt, or nothing."""
    known = {
        each.group: found
        for each in engines
        if each.group != NONE
        and each.first_tries >= TRIES_MIN
        and (found := odds(each.first_passes, each.first_tries)) is not None
    }
    if len(known) < 2:  # noqa: PLR2004 - whoever is alone is ahead of nobody
        return Advice(None, f"not enough runs: two engines with {TRIES_MIN} first tries are needed")
    first, second, *_ = sorted(known, key=lambda name: (-known[name].share, name))
    if known[first].low <= max(known[name].high for name in known if name != first):
        return Advice(None, f"{first} and {second} are too close to tell apart")
    return Advice(first, f"{first} comes out well at once more often than every other engine")
