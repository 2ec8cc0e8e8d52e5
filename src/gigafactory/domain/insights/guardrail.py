"""Guardrails: sequential tests that detect harm by learned routing, valid at any time.

Success is tested by a mixture sequential probability ratio test of two success rates: the
likelihood of the data, averaged over all rates with a beta prior on each side, divided by its
maximum under the hypothesis of no harm. Under that hypothesis the ratio is bounded by a martingale
that starts at 1, so it reaches 1/alpha with a probability of at most alpha (Ville's inequality),
however often it is checked. Cost is tested by a normal mixture on the difference of mean
logarithms, which is exact for normal data, so it starts only with enough samples.
"""

import math
from typing import NamedTuple

import msgspec

FALSE_ALARM_RATE = 0.025
"""Upper bound of the probability that a guardrail ever trips without harm."""
SUCCESS_MARGIN = 0.02
"""A success rate lower by at most this is no harm."""
COST_MARGIN = math.log(1.1)
"""A cost higher by at most 10 % is no harm."""
PRICED_MIN = 30
"""Minimum costs on each side, to estimate their variance."""
EXPECTED_RISE = 0.3
"""The difference of logarithms that the test detects best."""
_HALVINGS = 50


class TrialArm(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The results of one side of a comparison, as integers that add up exactly."""

    tries: int = 0
    passes: int = 0
    priced: int = 0
    log_nanos: int = 0
    """Sum of the logarithms of costs, in thousandths."""
    log_nanos_squared: int = 0

    def add(self, other: "TrialArm") -> "TrialArm":
        """Return the sum of both."""
        names = TrialArm.__struct_fields__
        return TrialArm(**{name: getattr(self, name) + getattr(other, name) for name in names})


class GuardrailVerdict(NamedTuple):
    """The strength of the evidence of harm; a guardrail trips at 1."""

    success: float
    """Evidence of lower success, as a fraction of the amount needed to trip."""
    cost: float
    """Evidence of higher cost, likewise."""

    @property
    def tripped(self) -> str | None:
        """The guardrail that trips; None when none does."""
        if self.success >= 1.0:
            return "success"
        return "cost" if self.cost >= 1.0 else None


def judge(learned: TrialArm, usual: TrialArm) -> GuardrailVerdict:
    """Return the verdict on learned routing compared with the heuristic."""
    needed = math.log(1.0 / FALSE_ALARM_RATE)
    fall = log_evidence(learned, usual, SUCCESS_MARGIN)
    return GuardrailVerdict(fall / needed, _rise(learned, usual))


def log_evidence(learned: TrialArm, usual: TrialArm, margin: float) -> float:
    """Return the log mixture ratio for a success rate lower by more than a margin; 0 for none."""
    if not (learned.tries and usual.tries):
        return 0.0
    if learned.passes / learned.tries >= usual.passes / usual.tries - margin:
        return 0.0
    evidence = _mixture(learned) + _mixture(usual) - _harmless(learned, usual, margin)
    return max(0.0, evidence)


def _mixture(arm: TrialArm) -> float:
    """Return the log likelihood averaged over all success rates."""
    fails = arm.tries - arm.passes
    return math.lgamma(arm.passes + 1) + math.lgamma(fails + 1) - math.lgamma(arm.tries + 2)


def _harmless(learned: TrialArm, usual: TrialArm, margin: float) -> float:
    """Return the highest log likelihood of any pair of rates that differ by the margin.

    It is concave, so bisection of its slope finds the maximum.
    """
    low, high = margin, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rising = _slope(learned, middle - margin) + _slope(usual, middle) > 0.0
        low, high = (middle, high) if rising else (low, middle)
    middle = (low + high) / 2
    return _likelihood(learned, middle - margin) + _likelihood(usual, middle)


def _slope(arm: TrialArm, share: float) -> float:
    safe = min(1.0 - 1e-15, max(1e-15, share))
    return arm.passes / safe - (arm.tries - arm.passes) / (1.0 - safe)


def _likelihood(arm: TrialArm, share: float) -> float:
    safe = min(1.0 - 1e-15, max(1e-15, share))
    return arm.passes * math.log(safe) + (arm.tries - arm.passes) * math.log(1.0 - safe)


def _rise(learned: TrialArm, usual: TrialArm) -> float:
    """Return the evidence for a cost increase above the margin, as a fraction of that needed."""
    if min(learned.priced, usual.priced) < PRICED_MIN:
        return 0.0
    (mean, spread), (usually, usual_spread) = _costs(learned), _costs(usual)
    variance = spread + usual_spread
    more = mean - usually - COST_MARGIN
    if more <= 0.0:
        return 0.0
    mixed = EXPECTED_RISE * EXPECTED_RISE
    wide = variance * (1 + variance / mixed)
    return more / math.sqrt(
        wide * (math.log(1 + mixed / variance) + 2 * math.log(1 / FALSE_ALARM_RATE))
    )


def _costs(arm: TrialArm) -> tuple[float, float]:
    """Return the mean of the logarithms, and the variance of that mean."""
    mean = arm.log_nanos / arm.priced / 1000
    squares = arm.log_nanos_squared / arm.priced / 1_000_000
    return mean, max(1e-6, squares - mean * mean) / (arm.priced - 1)
