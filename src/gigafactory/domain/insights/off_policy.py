"""Off-policy evaluation: estimate what other routing policies would have achieved.

It uses jobs that explored, each of whose options had a known probability. Three estimators:
inverse propensity scores (IPS: unbiased, high variance), self-normalised IPS (nearly unbiased, less
variance), and doubly robust ones, which start from the expected outcome and correct its error.
Expectations were recorded before the outcome was known, so the evaluation is out of sample.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gigafactory.domain.insights.confidence import Interval
from gigafactory.domain.insights.exploration import Episode

EPISODES_MIN = 100
"""Fewer jobs that explored than this support no conclusion."""
MATCHES_MIN = 30
"""Nor do fewer jobs whose random choice matches the policy."""
WORTHWHILE = 0.05
"""The difference of success rates to detect; decides how many jobs are needed."""
_Z = 1.96

Policy = Callable[[Episode], Sequence[float]]
"""Returns the probability of each option of an episode."""


class PolicyEstimate(NamedTuple):
    """The estimated outcome of a policy, with 95 % intervals."""

    policy: str
    matches: int
    """Jobs whose random choice has a positive probability under the policy."""
    ips: Interval
    snips: Interval
    doubly_robust: Interval
    seconds: float | None
    """The typical duration of a first attempt; None when unknown."""
    cost_usd: float | None


class PolicyEvaluation(NamedTuple):
    """The estimates of all policies, and the conclusion."""

    episodes: int
    estimates: tuple[PolicyEstimate, ...]
    gain: Interval | None
    """The gain in success rate of learned routing over the heuristic; None with too little data."""
    is_conclusive: bool
    conclusion: str


class _Row(NamedTuple):
    weight: float
    """The probability of the choice under the policy, divided by its actual probability."""
    reward: float
    expected: float
    """Expected success of the policy's choice."""
    expected_here: float
    """Expected success of the actual choice."""


def evaluate_policies(recorded: Iterable[Episode]) -> PolicyEvaluation:
    """Return the estimates of learned routing, the heuristic and the best single engine."""
    episodes = [e for e in recorded if e.observation.tries == 1 and e.propensity < 1.0]
    if not episodes:
        conclusion = (
            "no job has explored, so other policies cannot be evaluated: let a fraction of jobs"
            " explore, for example with `aq routing mode PRODUCT shadow --explore 0.05`, until"
            f" {EPISODES_MIN} have ended"
        )
        return PolicyEvaluation(0, (), None, is_conclusive=False, conclusion=conclusion)
    policies: dict[str, Policy] = {"learned": _learned, "heuristic": _heuristic}
    policies |= {f"always {engine}": _always(engine) for engine in _engines(episodes)}
    rows = {name: [_row(e, policy) for e in episodes] for name, policy in policies.items()}
    estimates = tuple(_estimate(name, rows[name], episodes) for name in policies)
    single = max(
        (e for e in estimates if e.policy.startswith("always ")),
        key=lambda e: e.doubly_robust.share,
    )
    compared = (*estimates[:2], single._replace(policy=f"best single: {single.policy}"))
    scores = zip(_robust(rows["learned"]), _robust(rows["heuristic"]), strict=True)
    differences = [one - other for one, other in scores]
    return _conclude(compared, len(episodes), differences)


def _conclude(
    estimates: tuple[PolicyEstimate, ...], episodes: int, differences: Sequence[float]
) -> PolicyEvaluation:
    gain = _mean(differences)
    matches = min(estimate.matches for estimate in estimates[:2])
    spread = (gain.high - gain.low) / 2 * math.sqrt(episodes)
    needed = max(EPISODES_MIN, math.ceil((spread / WORTHWHILE) ** 2))
    if episodes < EPISODES_MIN or matches < MATCHES_MIN:
        conclusion = (
            f"too little data: {episodes} jobs explored, and only {matches} random choices match"
            f" one of the two policies; about {needed} jobs are needed to detect a difference of"
            " five points of success"
        )
        return PolicyEvaluation(
            episodes, estimates, None, is_conclusive=False, conclusion=conclusion
        )
    points = f"{gain.share * 100:+.1f} points of success ({gain.low * 100:+.1f} to"
    points += f" {gain.high * 100:+.1f}, n = {episodes})"
    if gain.low > 0.0:
        conclusion = f"learned routing does better than the heuristic: {points}"
    elif gain.high < 0.0:
        conclusion = f"learned routing does worse than the heuristic: {points}"
    else:
        conclusion = f"no significant difference: {points}; about {needed} jobs that explored are"
        conclusion += " needed to detect five points"
    sure = gain.low > 0.0 or gain.high < 0.0
    return PolicyEvaluation(episodes, estimates, gain, is_conclusive=sure, conclusion=conclusion)


def _learned(episode: Episode) -> Sequence[float]:
    return _only(episode, episode.routing.learned)


def _heuristic(episode: Episode) -> Sequence[float]:
    return _only(episode, episode.routing.heuristic)


def _only(episode: Episode, place: int) -> Sequence[float]:
    return [float(number == place) for number in range(len(episode.routing.choices))]


def _always(engine: str) -> Policy:
    """Return the policy that always takes this engine, or the heuristic where it is not free."""

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
    observations = [episode.observation for episode in episodes]
    weights = [row.weight for row in rows]
    times = [(weight, one.log_ms, 1) for weight, one in zip(weights, observations, strict=True)]
    costs = [
        (weight, one.log_nanos, one.priced)
        for weight, one in zip(weights, observations, strict=True)
    ]
    return PolicyEstimate(
        name,
        sum(row.weight > 0.0 for row in rows),
        _mean([row.weight * row.reward for row in rows]),
        _weighted([(row.weight, row.reward) for row in rows]),
        _mean(_robust(rows)),
        _geometric_mean(times, 1e3),
        _geometric_mean(costs, 1e9),
    )


def _mean(values: Sequence[float]) -> Interval:
    """Return the mean with its interval."""
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    wide = _Z * math.sqrt(spread / len(values))
    return Interval(mean, mean - wide, mean + wide)


def _weighted(values: Sequence[tuple[float, float]]) -> Interval:
    """Return the weighted mean with the interval of a ratio estimator."""
    total = sum(weight for weight, _ in values)
    if total <= 0.0:
        return Interval(0.0, 0.0, 1.0)
    mean = sum(weight * value for weight, value in values) / total
    spread = sum((weight * (value - mean)) ** 2 for weight, value in values)
    wide = _Z * math.sqrt(spread) / total
    return Interval(mean, max(0.0, mean - wide), min(1.0, mean + wide))


def _geometric_mean(values: Sequence[tuple[float, int, int]], unit: float) -> float | None:
    """Return the weighted geometric mean of values given as log thousandths; None for none."""
    total = sum(weight for weight, _, known in values if known)
    if total <= 0.0:
        return None
    mean = sum(weight * value for weight, value, known in values if known) / total
    return math.exp(mean / 1000) / unit
