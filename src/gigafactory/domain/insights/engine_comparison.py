"""Compare engines by first-pass success at comparable jobs, and describe the result in words."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from gigafactory.domain.insights.effect_estimate import (
    LIKELY_SHARE,
    TO,
    TRIES_MIN,
    EffectEstimate,
    SampleSums,
    estimate_effect,
)
from gigafactory.domain.insights.engine_advice import OVERALL, Advice
from gigafactory.domain.insights.observation import Cell, Observation, TaskFeatures
from gigafactory.domain.insights.run_rollup import GroupBy

ADVICE_MONTHS = 3
"""Months that advice is based on; engines change, so older attempts are ignored."""

ENGINES_MIN = 2
"""Engines with enough first attempts that a comparison needs."""

ADVISED_GROUPS: Mapping[GroupBy, Callable[[TaskFeatures], str | None]] = {
    GroupBy.PROFILE: lambda task: task.profile,
    GroupBy.REPO: lambda task: task.repo,
}
"""The groupings with advice of their own, and the group of a job in each."""

Stratum = dict[str, SampleSums]
"""First attempts and passes of each engine at jobs with equal features."""


def compare_engines(
    observations: Iterable[tuple[Cell, Observation]], by: Collection[GroupBy] = ()
) -> list[Advice]:
    """Return engine advice overall, then for each profile and repo if in `by`.

    Groups with more first attempts come first; jobs without the feature count only overall.
    """
    strata = _sum_by_task(observations)
    advice_list = [_advise(strata.values())]
    for each, group_of in ADVISED_GROUPS.items():
        if each in by:
            groups: dict[str, list[Stratum]] = {}
            for task, stratum in strata.items():
                if (name := group_of(task)) is not None:
                    groups.setdefault(name, []).append(stratum)
            advice = [_advise(groups[name], each, name) for name in sorted(groups)]
            advice_list += sorted(advice, key=lambda one: -one.first_tries)
    return advice_list


def _sum_by_task(observations: Iterable[tuple[Cell, Observation]]) -> dict[TaskFeatures, Stratum]:
    counts: dict[TaskFeatures, dict[str, list[int]]] = {}
    for cell, observation in observations:
        if observation.tries:
            count = counts.setdefault(cell.task, {}).setdefault(cell.choice.engine, [0, 0])
            count[0] += observation.tries
            count[1] += observation.passes
    return {
        task: {name: SampleSums(tries, passes, passes) for name, (tries, passes) in of.items()}
        for task, of in counts.items()
    }


def _advise(strata: Collection[Stratum], by: str = OVERALL, group: str = OVERALL) -> Advice:
    tries: Counter[str] = Counter()
    passes: Counter[str] = Counter()
    for stratum in strata:
        for name, (tried, passed, _) in stratum.items():
            tries[name] += tried
            passes[name] += int(passed)
    enough = sorted(name for name, count in tries.items() if count >= TRIES_MIN)
    if len(enough) < ENGINES_MIN:
        engine, says = None, _describe_lack(tries)
    else:
        best = _best_matchup(enough, [each for each in strata if len(each) >= ENGINES_MIN])
        engine, says = (best.engine if best.is_won else None), _describe(best, tries, passes)
    return Advice(by=by, group=group, engine=engine, first_tries=tries.total(), says=says)


class Matchup(NamedTuple):
    """An engine compared with another one."""

    engine: str
    rival: str
    effect: EffectEstimate | None
    """The difference of their success rates; None with too few comparable attempts."""

    @property
    def is_won(self) -> bool:
        """Whether the engine is significantly better than the rival."""
        return self.effect is not None and self.effect.sure and self.effect.more > 0.0

    @property
    def margin(self) -> tuple[bool, float]:
        """How well the engine does against the rival, for sorting."""
        return self.is_won, -math.inf if self.effect is None else self.effect.more


def _best_matchup(engines: Sequence[str], strata: Sequence[Stratum]) -> Matchup:
    """Return the hardest matchup of the engine that does best in its hardest one.

    If any engine is significantly better than all others, it is that one.
    """
    matchups: dict[str, list[Matchup]] = {name: [] for name in engines}
    for name, rival in combinations(engines, 2):
        shared = [(each[name], each[rival]) for each in strata if name in each and rival in each]
        effect = estimate_effect(shared, LIKELY_SHARE)
        matchups[name].append(Matchup(name, rival, effect))
        matchups[rival].append(Matchup(rival, name, effect and effect.reversed()))
    hardest = [min(of, key=lambda one: one.margin) for of in matchups.values()]
    return max(hardest, key=lambda one: one.margin)


def _describe_lack(tries: Mapping[str, int]) -> str:
    counts = ", ".join(f"{name} {tries[name]}" for name in sorted(tries)) or "none"
    return (
        f"not enough runs: two engines with {TRIES_MIN} first attempts each are needed,"
        f" found {counts}"
    )


def _describe(best: Matchup, tries: Mapping[str, int], passes: Mapping[str, int]) -> str:
    name, rival, effect = best
    both = f"{name} (n = {tries[name]}) and {rival} (n = {tries[rival]})"
    unclear = f"no engine is clearly better: {both}"
    if effect is None:
        return (
            f"{unclear} have too few first attempts at comparable jobs, {TRIES_MIN} each are needed"
        )
    more, low, high = (round(value * 100) for value in effect[:3])
    if not best.is_won:
        return (
            f"{unclear} differ by {more} points at comparable jobs (95 % interval {low} to {high})"
        )
    rate = f"{100 * passes[name] / tries[name]:.0f} %"
    return (
        f"{name} passes {rate} of first attempts (n = {tries[name]}): at comparable jobs"
        f" {more} points more than {rival}, the next best (n = {tries[rival]},"
        f" 95 % interval {low}{TO}{high})"
    )
