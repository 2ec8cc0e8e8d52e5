"""Guardrails: they trip on harm, and rarely trip without it, however often they are checked."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.insights.guardrail import (
    COST_MARGIN,
    FALSE_ALARM_RATE,
    SUCCESS_MARGIN,
    TrialArm,
    judge,
    log_evidence,
)

pytestmark = pytest.mark.slow

LOOKS = 400
EVERY = 4
"""The guardrail is checked after every fourth of `LOOKS` tries on each side."""


def tries(passes: int, of: int) -> TrialArm:
    return TrialArm(tries=of, passes=passes)


def priced(logs: list[float]) -> TrialArm:
    whole = [round(1000 * each) for each in logs]
    return TrialArm(
        priced=len(whole), log_nanos=sum(whole), log_nanos_squared=sum(each**2 for each in whole)
    )


def first_trip(rng: random.Random, learned: float, usual: float) -> int | None:
    """Return the number of tries per side until the guardrail trips; None if it never does."""
    passes = [0, 0]
    for number in range(1, LOOKS + 1):
        for side, share in enumerate((learned, usual)):
            passes[side] += rng.random() < share
        if number % EVERY:
            continue
        if judge(tries(passes[0], number), tries(passes[1], number)).tripped:
            return number
    return None


@pytest.mark.parametrize(("learned", "usual"), [(0.7, 0.7), (0.68, 0.7), (0.08, 0.1), (0.95, 0.97)])
def test_guardrail_rarely_trips_without_harm_at_repeated_looks(
    learned: float, usual: float
) -> None:
    rng = random.Random(7)
    alarms = sum(first_trip(rng, learned, usual) is not None for _ in range(200))
    assert alarms / 200 <= FALSE_ALARM_RATE


def test_guardrail_detects_a_real_drop_in_success_quickly() -> None:
    rng = random.Random(7)
    found = [first_trip(rng, 0.4, 0.7) for _ in range(50)]
    assert sum(trip is not None for trip in found) >= 49
    assert sorted(trip or LOOKS for trip in found)[25] < 120


def first_rise(rng: random.Random, rise: float) -> int | None:
    learned, usual = TrialArm(), TrialArm()
    for number in range(LOOKS):
        learned = learned.add(priced([20.0 + rise + rng.gauss(0.0, 0.8)]))
        usual = usual.add(priced([20.0 + rng.gauss(0.0, 0.8)]))
        if judge(learned, usual).tripped == "cost":
            return number
    return None


def test_guardrail_rarely_trips_at_the_cost_margin_and_trips_at_double_cost() -> None:
    rng = random.Random(7)
    assert (
        sum(first_rise(rng, COST_MARGIN) is not None for _ in range(200)) / 200 <= FALSE_ALARM_RATE
    )
    found = [first_rise(rng, math.log(2)) for _ in range(30)]
    assert sum(trip is not None for trip in found) >= 29


def test_exponentially_scattered_costs_do_not_raise_false_alarms() -> None:
    rng = random.Random(7)
    alarms = 0
    for _ in range(200):
        learned, usual = TrialArm(), TrialArm()
        for _ in range(LOOKS // 2):
            learned = learned.add(priced([20.0 + rng.expovariate(1.2)]))
            usual = usual.add(priced([20.0 + rng.expovariate(1.2)]))
            if judge(learned, usual).cost >= 1.0:
                alarms += 1
                break
    assert alarms / 200 <= FALSE_ALARM_RATE


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_evidence_is_zero_without_a_drop_in_success(
    ok: int, bad: int, usual_ok: int, usual_bad: int
) -> None:
    learned, usual = tries(ok, ok + bad), tries(usual_ok, usual_ok + usual_bad)
    found = log_evidence(learned, usual, SUCCESS_MARGIN)
    assert math.isfinite(found)
    if (
        not learned.tries
        or not usual.tries
        or ok / learned.tries >= usual_ok / usual.tries - SUCCESS_MARGIN
    ):
        assert found == 0.0


@given(st.integers(0, 39))
def test_evidence_grows_with_the_number_of_failures(passes: int) -> None:
    usual = tries(40, 40)
    less = log_evidence(tries(passes, 40), usual, SUCCESS_MARGIN)
    more = log_evidence(tries(passes + 1, 40), usual, SUCCESS_MARGIN)
    assert less >= more - 1e-9


def test_success_guardrail_trips_first_and_few_costs_do_not_trip() -> None:
    bad = judge(tries(0, 50), tries(50, 50))
    assert bad.tripped == "success"
    assert judge(priced([25.0] * 29), priced([20.0] * 100)).cost == 0.0
    assert judge(priced([25.0] * 30), priced([20.0] * 30)).tripped == "cost"
    assert judge(priced([20.0] * 30), priced([25.0] * 30)).tripped is None
