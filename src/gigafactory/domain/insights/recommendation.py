"""Recommendations: choices that do significantly better than the present mix, with evidence."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gigafactory.domain.insights.effect_estimate import (
    LIKELY_LOG,
    LIKELY_SHARE,
    TO,
    EffectEstimate,
    SampleSums,
    estimate_effect,
)
from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    Observation,
    RoutingChoice,
    add_observations,
)


class Recommendation(NamedTuple):
    """A recommended choice for the jobs of a repo and profile, with the evidence."""

    product: str
    repo: str | None
    profile: str | None
    choice: RoutingChoice
    tries: int
    others: int
    """First attempts with any other choice."""
    success: EffectEstimate
    """Difference of success rates: 0.1 is ten points more."""
    time: EffectEstimate
    """Relative difference: -0.1 is ten per cent less."""
    cost: EffectEstimate | None
    """Relative difference; None with too few known costs."""

    @property
    def gain(self) -> float:
        """The overall gain, for sorting."""
        cheaper = -self.cost.more if self.cost is not None else 0.0
        return 3 * self.success.more - self.time.more + cheaper

    @property
    def sentence(self) -> str:
        """The recommendation with its evidence as a sentence."""
        of = [f"repo {self.repo}" if self.repo else "no repo"]
        of += [f"profile {self.profile}"] if self.profile else []
        on = f" on {self.choice.factory}" if self.choice.factory else ""
        parts = [(words, span) for words, span in self._phrases() if words]
        one = len(parts) == 1
        phrases = [words if one else f"{words} ({span})" for words, span in parts]
        ranges = f"interval {parts[0][1]}" if one else "intervals"
        return (
            f"{', '.join(of)}: {self.choice.engine}{on} {_join(phrases)} than the present mix"
            f" (n = {self.tries}, 95 % {ranges})"
        )

    def _phrases(self) -> Iterator[tuple[str, str]]:
        if self.success.sure:
            points = "passes at once {} points {} often"
            yield _phrase(self.success, points, ("more", "less"), "")
        if self.time.sure:
            yield _phrase(self.time, "ships {} % {}", ("slower", "faster"), " %")
        if self.cost is not None and self.cost.sure:
            yield _phrase(self.cost, "is {} % {}", ("more expensive", "cheaper"), " %")


def _phrase(
    change: EffectEstimate, words: str, ways: tuple[str, str], unit: str
) -> tuple[str, str]:
    low, high = sorted((abs(change.low), abs(change.high)))
    way = ways[0] if change.more > 0 else ways[1]
    span = f"{low * 100:.0f}{TO}{high * 100:.0f}{unit}"
    return words.format(f"{abs(change.more) * 100:.0f}", way), span


def _join(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


Strata = dict[tuple[str | None, str | None], Observation]
"""The observations of a choice by language and size of the jobs."""


def find_recommendations(
    observations: Iterable[tuple[Cell, Observation]], product: str | None = None
) -> list[Recommendation]:
    """Return the best choice for each repo and profile that has a significant one, best first."""
    groups: dict[tuple[str, str | None, str | None], dict[RoutingChoice, Strata]] = {}
    for cell, observation in observations:
        task, choice = cell.task, cell.choice
        if product is not None and task.product != product:
            continue
        of = groups.setdefault((task.product, task.repo, task.profile), {})
        for wide in (RoutingChoice(choice.engine), RoutingChoice(choice.engine, choice.factory)):
            strata, similarity = of.setdefault(wide, {}), (task.language, task.size)
            strata[similarity] = add_observations(
                strata.get(similarity, NO_OBSERVATION), observation
            )
    recommendations = [best for key, of in groups.items() if (best := _best(*key, of)) is not None]
    return sorted(
        recommendations, key=lambda r: (-r.gain, r.product, r.repo or "", r.profile or "")
    )


def _best(
    product: str, repo: str | None, profile: str | None, of: Mapping[RoutingChoice, Strata]
) -> Recommendation | None:
    whole: Strata = {}
    for choice, strata in of.items():
        for similarity, observation in strata.items() if choice.factory is None else ():
            whole[similarity] = add_observations(whole.get(similarity, NO_OBSERVATION), observation)
    recommendations = []
    for choice, strata in of.items():
        pairs = [(one, add_observations(whole[k], one, -1)) for k, one in strata.items()]
        tries = sum(one.tries for one, _ in pairs)
        others = sum(observation.tries for observation in whole.values()) - tries
        part = others / (tries + others)
        success, time, cost = (
            estimate_effect([(m.read(a), m.read(b)) for a, b in pairs], m.likely, part=part)
            for m in METRICS
        )
        if success is None or time is None:
            continue
        ratio = _ratio(cost) if cost is not None else None
        recommendation = Recommendation(
            product, repo, profile, choice, tries, others, success, _ratio(time), ratio
        )
        if _is_clear_gain(recommendation):
            recommendations.append(recommendation)
    return min(recommendations, key=_preference, default=None)


def _preference(recommendation: Recommendation) -> tuple[float, bool, str, str]:
    """Sort best first; of equals prefer an engine over an engine on one factory."""
    factory = recommendation.choice.factory
    return -recommendation.gain, factory is not None, recommendation.choice.engine, factory or ""


def _is_clear_gain(recommendation: Recommendation) -> bool:
    """Return whether it is significantly better in one metric, and worse in none."""
    better = recommendation.success.sure and recommendation.success.more > 0.0
    better = better or (recommendation.time.sure and recommendation.time.more < 0.0)
    worse = recommendation.success.high < 0.0 or recommendation.time.low > 0.0
    if recommendation.cost is not None:
        better = better or (recommendation.cost.sure and recommendation.cost.more < 0.0)
        worse = worse or recommendation.cost.low > 0.0
    return better and not worse


class Metric(NamedTuple):
    """A metric to compare choices by, with the prior scale of its differences."""

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


def _ratio(change: EffectEstimate) -> EffectEstimate:
    more, low, high = (math.expm1(value) for value in change[:3])
    return EffectEstimate(more, low, high, change.sure)
