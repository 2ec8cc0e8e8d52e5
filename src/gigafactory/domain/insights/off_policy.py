"""What another way of choosing would have come to, judged by jobs whose choice was drawn by lot.

Every such job had each of its choices with a known probability, so that whoever would have chosen
as the lot did counts for all those whom the lot chose otherwise for. Three estimates are given:
inverse propensity weights (without bias, but scattered), the same divided by the sum of the weights
(nearly without bias, less scattered), and doubly robust ones, which begin from what was expected at
the time of the choice and correct only what that got wrong. Expectations were recorded before the
outcome was known, so that nothing is judged by what was learned from it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gigafactory.domain.insights.confidence import Interval
from gigafactory.domain.insights.exploration import Episode

EPISODES_MIN = 100
"""Fewer jobs that explored support no conclusion."""
MATCHES_MIN = 30
"""Nor do fewer jobs for which the lot chose as a policy would have."""
WORTHWHILE = 0.05
"""A difference of success that one would want to see: how many more jobs are needed for it."""
_Z = 1.96

Policy = Callable[[Episode], Sequence[float]]
"""The probability of each choice that an episode had."""


class PolicyEstimate(NamedTuple):
    """What a policy would have come to, with 95 % intervals."""

    policy: str
    matches: int
    """Jobs for which the lot chose as it might have."""
    ips: Interval
    snips: Interval
    doubly_robust: Interval
    seconds: float | None
    """The typical time of a first try; None where nothing is known."""
    cost_usd: float | None


class PolicyEvaluation(NamedTuple):
    """All policies side by side, and what may be concluded from that."""

    episodes: int
    estimates: tuple[PolicyEstimate, ...]
    gain: Interval | None
    """In success, of what was learned over the usual rules; None where too little is known."""
    is_conclusive: bool
    conclusion: str


class _Row(NamedTuple):
    weight: float
    """How likely the policy would have chosen as the lot did, over how likely the lot was to."""
    reward: float
    expected: float
    """Of what the policy would have chosen."""
    expected_here: float
    """Of what the lot chose."""


def evaluate_policies(found: Iterable[Episode]) -> PolicyEvaluation:
    """Judge what was learned, the usual rules, and each engine alone."""
    episodes = [e for e in found if e.observation.tries == 1 and e.propensity < 1.0]
    if not episodes:
        told = (
            "no choice had a probability below 1, so that nothing can be said of what was not"
            " chosen: let a share of jobs explore, as with `aq routing mode PRODUCT shadow"
            f" --explore 0.05`, until {EPISODES_MIN} have ended"
        )
        return PolicyEvaluation(0, (), None, is_conclusive=False, conclusion=told)
    policies: dict[str, Policy] = {"learned": _learned, "heuristic": _heuristic}
    policies |= {f"always {engine}": _always(engine) for engine in _engines(episodes)}
    rows = {name: [_row(e, policy) for e in episodes] for name, policy in policies.items()}
    estimates = tuple(_estimate(name, rows[name], episodes) for name in policies)
    single = max(
        (e for e in estimates if e.policy.startswith("always ")),
        key=lambda e: e.doubly_robust.share,
    )
    told_of = (*estimates[:2], single._replace(policy=f"best single: {single.policy}"))
    scores = zip(_robust(rows["learned"]), _robust(rows["heuristic"]), strict=True)
    differences = [one - other for one, other in scores]
    return _concluded(told_of, len(episodes), differences)


def _concluded(
    estimates: tuple[PolicyEstimate, ...], episodes: int, differences: Sequence[float]
) -> PolicyEvaluation:
    gain = _mean(differences)
    matches = min(estimate.matches for estimate in estimates[:2])
    spread = (gain.high - gain.low) / 2 * math.sqrt(episodes)
    needed = max(EPISODES_MIN, math.ceil((spread / WORTHWHILE) ** 2))
    if episodes < EPISODES_MIN or matches < MATCHES_MIN:
        told = (
            f"too little to conclude from: {episodes} jobs explored, and in {matches} of them the"
            f" lot chose as one of the two would have; about {needed} would tell five points"
            " of success apart"
        )
        return PolicyEvaluation(episodes, estimates, None, is_conclusive=False, conclusion=told)
    points = f"{gain.share * 100:+.1f} points of success ({gain.low * 100:+.1f} to"
    points += f" {gain.high * 100:+.1f}, n = {episodes})"
    if gain.low > 0.0:
        told = f"what was learned does better than the usual rules: {points}"
    elif gain.high < 0.0:
        told = f"what was learned does worse than the usual rules: {points}"
    else:
        told = f"no difference can be told: {points}; about {needed} jobs that explored would"
        told += " tell five points apart"
    sure = gain.low > 0.0 or gain.high < 0.0
    return PolicyEvaluation(episodes, estimates, gain, is_conclusive=sure, conclusion=told)


def _learned(episode: Episode) -> Sequence[float]:
    return _only(episode, episode.routing.learned)


def _heuristic(episode: Episode) -> Sequence[float]:
    return _only(episode, episode.routing.heuristic)


def _only(episode: Episode, place: int) -> Sequence[float]:
    return [float(number == place) for number in range(len(episode.routing.choices))]


def _always(engine: str) -> Policy:
    """Any factory that has the engine free; where none has, what the usual rules say."""

    def policy(episode: Episode) -> Sequence[float]:
        having = [float(choice.engine == engine) for choice in episode.routing.choices]
        return [each / sum(having) for each in having] if any(having) else _heuristic(episode)

    return policy


def _engines(episodes: Iterable[Episode]) -> list[str]:
    return sorted({choice.engine for e in episodes for choice in e.routing.choices})


def _row(episode: Episode, policy: Policy) -> _Row:
    chances, routed = policy(episode), episode.routing
    expected = sum(p * c.success for p, c in zip(chances, routed.choices, strict=True))
    return _Row(
        chances[routed.chosen] / episode.propensity,
        float(episode.observation.passes),
        expected,
        routed.choices[routed.chosen].success,
    )


def _robust(rows: Sequence[_Row]) -> list[float]:
    return [row.expected + row.weight * (row.reward - row.expected_here) for row in rows]


def _estimate(name: str, rows: Sequence[_Row], episodes: Sequence[Episode]) -> PolicyEstimate:
    lessons = [episode.observation for episode in episodes]
    weights = [row.weight for row in rows]
    times = [(weight, one.log_ms, 1) for weight, one in zip(weights, lessons, strict=True)]
    costs = [
        (weight, one.log_nanos, one.priced) for weight, one in zip(weights, lessons, strict=True)
    ]
    return PolicyEstimate(
        name,
        sum(row.weight > 0.0 for row in rows),
        _mean([row.weight * row.reward for row in rows]),
        _weighted([(row.weight, row.reward) for row in rows]),
        _mean(_robust(rows)),
        _typical(times, 1e3),
        _typical(costs, 1e9),
    )


def _mean(values: Sequence[float]) -> Interval:
    """The mean with its interval."""
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    wide = _Z * math.sqrt(spread / len(values))
    return Interval(mean, mean - wide, mean + wide)


def _weighted(values: Sequence[tuple[float, float]]) -> Interval:
    """The mean over the sum of weights, with the interval of a ratio."""
    total = sum(weight for weight, _ in values)
    if total <= 0.0:
        return Interval(0.0, 0.0, 1.0)
    mean = sum(weight * value for weight, value in values) / total
    spread = sum((weight * (value - mean)) ** 2 for weight, value in values)
    wide = _Z * math.sqrt(spread) / total
    return Interval(mean, max(0.0, mean - wide), min(1.0, mean + wide))


def _typical(values: Sequence[tuple[float, int, int]], unit: float) -> float | None:
    """The typical value behind logarithms in thousandths; None where no weight is on any."""
    total = sum(weight for weight, _, known in values if known)
    if total <= 0.0:
        return None
    mean = sum(weight * value for weight, value, known in values if known) / total
    return math.exp(mean / 1000) / unit
