"""Rollouts: modes, random draws, and the automatic rollback of a product."""

import math

import pytest

from gigafactory.domain.insights.guardrail import TrialArm
from gigafactory.domain.insights.routing_rollout import (
    AB_SHARE,
    EXPLORED,
    ON_SHARE,
    RolloutMode,
    RoutingRollout,
    RoutingSide,
    add_trials,
    hash_fraction,
    set_rollout,
)
from tests.support.builders import NOON, after


def a_rollout(
    mode: RolloutMode, before: RoutingRollout | None = None, **given: float
) -> RoutingRollout:
    return set_rollout(before, "notes", mode, by="user:ann", now=NOON, **given)


@pytest.mark.parametrize(
    ("mode", "share", "explore"),
    [
        (RolloutMode.OFF, 0.0, 0.0),
        (RolloutMode.SHADOW, 0.0, 0.0),
        (RolloutMode.AB, AB_SHARE, EXPLORED),
        (RolloutMode.ON, ON_SHARE, EXPLORED),
    ],
)
def test_each_mode_has_its_default_shares(mode: RolloutMode, share: float, explore: float) -> None:
    made = a_rollout(mode)
    assert (made.share, made.explore, made.trial, made.rev) == (share, explore, 1, 1)


def test_given_shares_apply_only_in_modes_that_use_them() -> None:
    made = a_rollout(RolloutMode.AB, share=0.2, explore=0.01)
    assert (made.share, made.explore) == (0.2, 0.01)
    assert a_rollout(RolloutMode.SHADOW, share=0.2, explore=0.01).share == 0.0
    assert a_rollout(RolloutMode.SHADOW, explore=0.01).explore == 0.01
    assert a_rollout(RolloutMode.OFF, explore=0.01).explore == 0.0


def test_new_setting_starts_a_new_trial_and_clears_the_alarm() -> None:
    harmed = add_trials(
        a_rollout(RolloutMode.AB), TrialArm(tries=40), TrialArm(tries=40, passes=40), now=NOON
    )
    again = a_rollout(RolloutMode.AB, harmed)
    assert (again.tripped, again.learned, again.usual) == (None, TrialArm(), TrialArm())
    assert again.trial == harmed.trial + 1
    assert again.rev == harmed.rev + 1


def test_hash_fractions_are_stable_uniform_and_independent() -> None:
    lots = [hash_fraction(f"job-{n}", "side") for n in range(2000)]
    assert lots == [hash_fraction(f"job-{n}", "side") for n in range(2000)]
    assert all(0.0 <= each < 1.0 for each in lots)
    assert sum(lots) / 2000 == pytest.approx(0.5, abs=0.03)
    other = [hash_fraction(f"job-{n}", "explore") for n in range(2000)]
    both = sum(a < 0.5 and b < 0.5 for a, b in zip(lots, other, strict=True))
    assert both / 2000 == pytest.approx(0.25, abs=0.04)


def test_shadow_stays_on_the_heuristic_side_and_off_never_explores() -> None:
    jobs = [f"job-{n}" for n in range(50)]
    shadow = RoutingRollout(product_id="notes", mode=RolloutMode.SHADOW, share=1.0, explore=1.0)
    assert {shadow.side(job) for job in jobs} == {RoutingSide.HEURISTIC}
    assert all(shadow.should_explore(job) for job in jobs)
    off = RoutingRollout(product_id="notes", mode=RolloutMode.OFF, share=1.0, explore=1.0)
    assert not any(off.should_explore(job) for job in jobs)
    on = RoutingRollout(product_id="notes", mode=RolloutMode.ON, share=1.0)
    assert {on.side(job) for job in jobs} == {RoutingSide.LEARNED}


def test_tripped_guardrail_switches_to_shadow_and_records_the_reason() -> None:
    well = add_trials(
        a_rollout(RolloutMode.ON),
        TrialArm(tries=5, passes=5),
        TrialArm(tries=5, passes=5),
        now=after(1),
    )
    assert (well.mode, well.tripped, well.learned.tries) == (RolloutMode.ON, None, 5)
    harmed = add_trials(well, TrialArm(tries=40), TrialArm(tries=40, passes=40), now=after(2))
    assert (harmed.mode, harmed.share, harmed.explore) == (RolloutMode.SHADOW, 0.0, 0.0)
    assert harmed.tripped is not None
    assert (harmed.tripped.guardrail, harmed.tripped.mode) == ("success", RolloutMode.ON)
    assert harmed.tripped.reason == ("fewer jobs pass at once: 5 of 45 with it, 45 of 45 without")
    assert harmed.trial == well.trial + 1


def test_cost_rise_is_reported_in_per_cent() -> None:
    def costs(nanos: float) -> TrialArm:
        each = round(1000 * math.log(nanos))
        return TrialArm(priced=50, log_nanos=50 * each, log_nanos_squared=50 * each**2)

    harmed = add_trials(a_rollout(RolloutMode.AB), costs(2e9), costs(1e9), now=NOON)
    assert harmed.tripped is not None
    assert harmed.tripped.reason == "jobs cost more: 100 % more than without"


def test_shadow_mode_never_trips_the_guardrail() -> None:
    watched = add_trials(
        a_rollout(RolloutMode.SHADOW), TrialArm(tries=90), TrialArm(tries=90, passes=90), now=NOON
    )
    assert (watched.mode, watched.tripped) == (RolloutMode.SHADOW, None)
