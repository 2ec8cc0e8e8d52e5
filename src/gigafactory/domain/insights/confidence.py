"""Confidence intervals (Wilson) of first-pass rates, and engine advice based on them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gigafactory.domain.insights.engine_advice import OVERALL, Advice
from gigafactory.domain.insights.engine_stats import PAIRED
from gigafactory.domain.insights.run_rollup import (
    NO_GROUP,
    GroupBy,
    RunRollup,
    group_of,
    summarize_runs,
)
from gigafactory.domain.job.run import Run

TRIES_MIN = 20
"""Fewer first attempts than this support no advice."""
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


def advice(engines: Iterable[RunRollup], by: str = OVERALL, group: str = OVERALL) -> Advice:
    """Return the engine with a significantly higher first-pass rate than all others, if any."""
    tried = [each for each in engines if each.group != NO_GROUP and each.first_tries]
    known = {
        each.group: EnginePassRate(found, each.first_tries)
        for each in tried
        if each.first_tries >= TRIES_MIN
        and (found := wilson_interval(each.first_passes, each.first_tries)) is not None
    }
    engine, says = _verdict(known) if len(known) > 1 else (None, _too_few(tried))
    tries = sum(each.first_tries for each in tried)
    return Advice(by=by, group=group, engine=engine, first_tries=tries, says=says)


def sorted_advice(found: Iterable[Advice]) -> list[Advice]:
    """Return advice sorted by number of first attempts, most first."""
    return sorted(found, key=lambda one: (-one.first_tries, one.group))


def advised(runs: Sequence[Run], by: Iterable[GroupBy]) -> list[Advice]:
    """Return engine advice from runs: overall, and per profile and repo if in `by`."""
    told = [advice(_engines(runs))]
    for each in by:
        if each in PAIRED:
            groups: dict[str, list[Run]] = {}
            for run in runs:
                groups.setdefault(group_of(run, each), []).append(run)
            groups.pop(NO_GROUP, None)
            told += sorted_advice(advice(_engines(g), each, name) for name, g in groups.items())
    return told


def _engines(runs: Iterable[Run]) -> Sequence[RunRollup]:
    return summarize_runs(runs, (GroupBy.ENGINE,)).by[GroupBy.ENGINE]


class EnginePassRate(NamedTuple):
    """The first-pass rate of an engine with enough attempts."""

    odds: Interval
    tries: int

    def __str__(self) -> str:
        share, low, high = (f"{value * 100:.0f}" for value in self.odds)
        return f"{share} % (n = {self.tries}, 95 % interval {low} to {high} %)"


def _verdict(known: Mapping[str, EnginePassRate]) -> tuple[str | None, str]:
    first, *others = sorted(known, key=lambda name: (-known[name].odds.share, name))
    # Compare with the engine that may be the best of the others, not always the second.
    rival = max(others, key=lambda name: known[name].odds.high)
    if known[first].odds.low <= known[rival].odds.high:
        says = f"{first} {known[first]} and {rival} {known[rival]} are too close to tell apart"
        return None, says
    told = f"{first} passes at once in {known[first]}, more often than every other engine"
    return first, f"{told}; next is {others[0]} {known[others[0]]}"


def _too_few(tried: Iterable[RunRollup]) -> str:
    there = ", ".join(f"{each.group} {each.first_tries}" for each in tried) or "none"
    return (
        f"not enough runs: two engines with {TRIES_MIN} first attempts each are needed,"
        f" found {there}"
    )
