"""Recommendations: what does clearly better than the present mix, in words with the evidence."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    Observation,
    RoutingChoice,
    add_observations,
)

TRIES_MIN = 20
"""Fewer first tries, of the choice or of the others, support nothing that anybody should act on."""
LIKELY_SHARE = 0.1
LIKELY_LOG = 0.3
"""How far choices usually are apart, in shares and in logarithms: what is more is half doubted."""
_Z = 1.96
_BEYOND_DOUBT = 3.0
"""Many repos, profiles and choices are looked at: one in twenty would be told by chance."""
TO = "\u2013"
"""What stands between the two ends of a range."""


class EffectEstimate(NamedTuple):
    """How much more, of the present mix, with the range that holds it 95 times in a hundred."""

    more: float
    low: float
    high: float
    sure: bool
    """Whether it is a change at all, beyond doubt."""


class Recommendation(NamedTuple):
    """A choice for the jobs of a repo with a profile, and what speaks for it."""

    product: str
    repo: str | None
    profile: str | None
    choice: RoutingChoice
    tries: int
    others: int
    """First tries of the same jobs with anything else."""
    success: EffectEstimate
    """In shares: 0.1 is ten points more."""
    time: EffectEstimate
    """As a part: -0.1 is ten per cent less."""
    cost: EffectEstimate | None
    """None where nobody knows enough costs."""

    @property
    def gain(self) -> float:
        """How much better it is, all in all; for the order."""
        cheaper = -self.cost.more if self.cost is not None else 0.0
        return 3 * self.success.more - self.time.more + cheaper

    @property
    def sentence(self) -> str:
        """All of it as a sentence."""
        of = [f"repo {self.repo}" if self.repo else "no repo"]
        of += [f"profile {self.profile}"] if self.profile else []
        on = f" on {self.choice.factory}" if self.choice.factory else ""
        said = [(words, span) for words, span in self._said() if words]
        one = len(said) == 1
        phrases = [words if one else f"{words} ({span})" for words, span in said]
        ranges = f"interval {said[0][1]}" if one else "intervals"
        return (
            f"{', '.join(of)}: {self.choice.engine}{on} {_listed(phrases)} than the present mix"
            f" (n = {self.tries}, 95 % {ranges})"
        )

    def _said(self) -> Iterator[tuple[str, str]]:
        if self.success.sure:
            points = "passes at once {} points {} often"
            yield _phrase(self.success, points, ("more", "less"), "")
        if self.time.sure:
            yield _phrase(self.time, "ships {} % {}", ("slower", "faster"), " %")
        if self.cost is not None and self.cost.sure:
            yield _phrase(self.cost, "is {} % {}", ("dearer", "cheaper"), " %")


def _phrase(
    change: EffectEstimate, words: str, ways: tuple[str, str], unit: str
) -> tuple[str, str]:
    low, high = sorted((abs(change.low), abs(change.high)))
    way = ways[0] if change.more > 0 else ways[1]
    span = f"{low * 100:.0f}{TO}{high * 100:.0f}{unit}"
    return words.format(f"{abs(change.more) * 100:.0f}", way), span


def _listed(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


Strata = dict[tuple[str | None, str | None], Observation]
"""The tries of a choice by the language and the size of the jobs."""


def find_recommendations(
    known: Iterable[tuple[Cell, Observation]], product: str | None = None
) -> list[Recommendation]:
    """The best choice for each repo and profile, where one is clearly ahead; the best first."""
    groups: dict[tuple[str, str | None, str | None], dict[RoutingChoice, Strata]] = {}
    for cell, lesson in known:
        task, choice = cell.task, cell.choice
        if product is not None and task.product != product:
            continue
        of = groups.setdefault((task.product, task.repo, task.profile), {})
        for wide in (RoutingChoice(choice.engine), RoutingChoice(choice.engine, choice.factory)):
            strata, alike = of.setdefault(wide, {}), (task.language, task.size)
            strata[alike] = add_observations(strata.get(alike, NO_OBSERVATION), lesson)
    found = [best for key, of in groups.items() if (best := _best(*key, of)) is not None]
    return sorted(found, key=lambda r: (-r.gain, r.product, r.repo or "", r.profile or ""))


def _best(
    product: str, repo: str | None, profile: str | None, of: Mapping[RoutingChoice, Strata]
) -> Recommendation | None:
    whole: Strata = {}
    for choice, strata in of.items():
        for alike, lesson in strata.items() if choice.factory is None else ():
            whole[alike] = add_observations(whole.get(alike, NO_OBSERVATION), lesson)
    found = []
    for choice, strata in of.items():
        pairs = [(one, add_observations(whole[k], one, -1)) for k, one in strata.items()]
        tries = sum(one.tries for one, _ in pairs)
        others = sum(lesson.tries for lesson in whole.values()) - tries
        success, time, cost = (_change(pairs, others / (tries + others), of) for of in METRICS)
        if success is None or time is None:
            continue
        ratio = _ratio(cost) if cost is not None else None
        said = Recommendation(
            product, repo, profile, choice, tries, others, success, _ratio(time), ratio
        )
        if _clear(said):
            found.append(said)
    return min(found, key=_plainest, default=None)


def _plainest(said: Recommendation) -> tuple[float, bool, str, str]:
    """The best first; of equals an engine alone rather than an engine on one factory."""
    factory = said.choice.factory
    return -said.gain, factory is not None, said.choice.engine, factory or ""


def _clear(said: Recommendation) -> bool:
    """Whether it is better in something beyond doubt, and in nothing worse."""
    better = said.success.sure and said.success.more > 0.0
    better = better or (said.time.sure and said.time.more < 0.0)
    worse = said.success.high < 0.0 or said.time.low > 0.0
    if said.cost is not None:
        better = better or (said.cost.sure and said.cost.more < 0.0)
        worse = worse or said.cost.low > 0.0
    return better and not worse


class SampleSums(NamedTuple):
    """How many tries there are of something, their sum, and the sum of their squares."""

    tries: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        """The mean."""
        return self.total / self.tries

    @property
    def around(self) -> float:
        """The sum of the squares of what is beyond the mean."""
        return max(0.0, self.squares - self.total * self.mean)


class Metric(NamedTuple):
    """What tries are compared in, and how far choices usually are apart in it."""

    read: Callable[[Observation], SampleSums]
    likely: float


METRICS = (
    Metric(lambda one: SampleSums(one.tries, one.passes, one.passes), LIKELY_SHARE),
    Metric(
        lambda one: SampleSums(one.tries, one.log_ms / 1e3, one.log_ms_squared / 1e6), LIKELY_LOG
    ),
    Metric(
        lambda one: SampleSums(one.priced, one.log_nanos / 1e3, one.log_nanos_squared / 1e6),
        LIKELY_LOG,
    ),
)
"""Success, time and cost."""


def _change(
    pairs: Sequence[tuple[Observation, Observation]], part: float, measure: Metric
) -> EffectEstimate | None:
    """How far a choice is from the mix that it is a part of; None for too few tries to tell.

    Like is compared with like: small jobs are quick, whoever does them.
    """
    both = [(measure.read(one), measure.read(other)) for one, other in pairs]
    both = [(one, other) for one, other in both if one.tries and other.tries]
    counts = sum(one.tries for one, _ in both), sum(other.tries for _, other in both)
    if min(counts) < TRIES_MIN:
        return None
    weights = [one.tries * other.tries / (one.tries + other.tries) for one, other in both]
    more = sum(w * (one.mean - other.mean) for w, (one, other) in zip(weights, both, strict=True))
    around = sum(one.around + other.around for one, other in both)
    # Where all came out alike, the next one may still not.
    scatter = (around + measure.likely) / (sum(counts) - 2 * len(both) + 1)
    variance = scatter / sum(weights)
    return _pooled(part * more / sum(weights), part * part * variance, measure.likely)


def _pooled(more: float, variance: float, likely: float) -> EffectEstimate:
    """A difference, taken half way back where it is as doubtful as differences are likely."""
    held = likely * likely / (likely * likely + variance)
    more, spread = held * more, math.sqrt(held * variance)
    wide = _Z * spread
    return EffectEstimate(more, more - wide, more + wide, sure=abs(more) > _BEYOND_DOUBT * spread)


def _ratio(change: EffectEstimate) -> EffectEstimate:
    more, low, high = (math.expm1(value) for value in change[:3])
    return EffectEstimate(more, low, high, change.sure)
