"""Guardrails: whether what was learned does harm, by tests that may be looked at at any time.

Success is judged by a mixture sequential probability ratio test of two shares: the likelihood of
what was seen, averaged over all shares with a beta prior on each side, against its highest value
while nothing is wrong. Under any pair of shares that is no harm that ratio is a martingale that
begins at one, so that it ever reaches 1/alpha with a probability of at most alpha (Ville), however
often one looks. Cost is judged by a normal mixture on the difference of mean logarithms, which is
exact for normal ones, and begins when there are enough for that to be close.
"""

import math
from typing import NamedTuple

import msgspec

FALSE_ALARM_RATE = 0.025
"""How often, at most, each of the two guardrails trips over something harmless, ever."""
SUCCESS_MARGIN = 0.02
"""So much less success is not called a fall."""
COST_MARGIN = math.log(1.1)
"""A tenth more is not called a rise."""
PRICED_MIN = 30
"""Fewer costs on either side say nothing of how they scatter."""
EXPECTED_RISE = 0.3
"""How large a difference of logarithms the test is best at finding."""
_HALVINGS = 50


class TrialArm(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one side of a comparison came to; whole numbers that add up exactly."""

    tries: int = 0
    passes: int = 0
    priced: int = 0
    log_nanos: int = 0
    """Sum of the logarithms of costs, in thousandths."""
    log_nanos_squared: int = 0

    def add(self, other: "TrialArm") -> "TrialArm":
        """Both together."""
        names = TrialArm.__struct_fields__
        return TrialArm(**{name: getattr(self, name) + getattr(other, name) for name in names})


class GuardrailVerdict(NamedTuple):
    """How strong the evidence of harm is, and what follows: it trips at 1."""

    success: float
    """Of a fall of success, as a part of what is needed to trip."""
    cost: float
    """Of a rise of cost, in the same way."""

    @property
    def tripped(self) -> str | None:
        """Which guardrail trips; None when all is well."""
        if self.success >= 1.0:
            return "success"
        return "cost" if self.cost >= 1.0 else None


def judge(learned: TrialArm, usual: TrialArm) -> GuardrailVerdict:
    """Compare what was learned with what is usual, at any time."""
    needed = math.log(1.0 / FALSE_ALARM_RATE)
    fall = log_evidence(learned, usual, SUCCESS_MARGIN)
    return GuardrailVerdict(fall / needed, _rise(learned, usual))


def log_evidence(learned: TrialArm, usual: TrialArm, margin: float) -> float:
    """The logarithm of the mixture ratio against a fall of success by more than a margin.

    Nothing where there is no fall, or too little to speak of one.
    """
    if not (learned.tries and usual.tries):
        return 0.0
    if learned.passes / learned.tries >= usual.passes / usual.tries - margin:
        return 0.0
    found = _mixture(learned) + _mixture(usual) - _harmless(learned, usual, margin)
    return max(0.0, found)


def _mixture(arm: TrialArm) -> float:
    """The logarithm of the likelihood, averaged over all shares alike."""
    fails = arm.tries - arm.passes
    return math.lgamma(arm.passes + 1) + math.lgamma(fails + 1) - math.lgamma(arm.tries + 2)


def _harmless(learned: TrialArm, usual: TrialArm, margin: float) -> float:
    """The highest likelihood that any pair of shares at the margin gives, as a logarithm.

    Its slope only falls, so that halving finds where it is level.
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
    """How much of what is needed speaks for costs that rose by more than the margin."""
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
    """The mean of the logarithms, and the variance of that mean."""
    mean = arm.log_nanos / arm.priced / 1000
    squares = arm.log_nanos_squared / arm.priced / 1_000_000
    return mean, max(1e-6, squares - mean * mean) / (arm.priced - 1)
