"""Rollouts: modes, lots, and how a product goes back by itself."""

import math

import pytest

from gigafactory.domain.insights.guardrail import Arm
from gigafactory.domain.insights.routing_rollout import (
    AB_SHARE,
    EXPLORED,
    ON_SHARE,
    Mode,
    Routing,
    Side,
    counted,
    lot,
    turned,
)
from tests.support.builders import NOON, after


def a_rollout(mode: Mode, before: Routing | None = None, **given: float) -> Routing:
    return turned(before, "notes", mode, by="user:ann", now=NOON, **given)


@pytest.mark.parametrize(
    ("mode", "share", "explore"),
    [
        (Mode.OFF, 0.0, 0.0),
        (Mode.SHADOW, 0.0, 0.0),
        (Mode.AB, AB_SHARE, EXPLORED),
        (Mode.ON, ON_SHARE, EXPLORED),
    ],
)
def test_each_mode_has_its_usual_shares(mode: Mode, share: float, explore: float) -> None:
    made = a_rollout(mode)
    assert (made.share, made.explore, made.trial, made.rev) == (share, explore, 1, 1)


def test_shares_that_are_given_hold_where_they_mean_something() -> None:
    made = a_rollout(Mode.AB, share=0.2, explore=0.01)
    assert (made.share, made.explore) == (0.2, 0.01)
    assert a_rollout(Mode.SHADOW, share=0.2, explore=0.01).share == 0.0
    assert a_rollout(Mode.SHADOW, explore=0.01).explore == 0.01
    assert a_rollout(Mode.OFF, explore=0.01).explore == 0.0


def test_a_new_setting_begins_a_new_comparison_without_the_old_alarm() -> None:
    harmed = counted(a_rollout(Mode.AB), Arm(tries=40), Arm(tries=40, passes=40), now=NOON)
    again = a_rollout(Mode.AB, harmed)
    assert (again.tripped, again.learned, again.usual) == (None, Arm(), Arm())
    assert again.trial == harmed.trial + 1
    assert again.rev == harmed.rev + 1


def test_lots_are_even_and_a_job_s_own() -> None:
    lots = [lot(f"job-{n}", "side") for n in range(2000)]
    assert lots == [lot(f"job-{n}", "side") for n in range(2000)]
    assert all(0.0 <= each < 1.0 for each in lots)
    assert sum(lots) / 2000 == pytest.approx(0.5, abs=0.03)
    other = [lot(f"job-{n}", "explore") for n in range(2000)]
    both = sum(a < 0.5 and b < 0.5 for a, b in zip(lots, other, strict=True))
    assert both / 2000 == pytest.approx(0.25, abs=0.04)


def test_only_what_acts_has_two_sides_and_what_is_off_explores_nothing() -> None:
    jobs = [f"job-{n}" for n in range(50)]
    shadow = Routing(product_id="notes", mode=Mode.SHADOW, share=1.0, explore=1.0)
    assert {shadow.side(job) for job in jobs} == {Side.HEURISTIC}
    assert all(shadow.explores(job) for job in jobs)
    off = Routing(product_id="notes", mode=Mode.OFF, share=1.0, explore=1.0)
    assert not any(off.explores(job) for job in jobs)
    on = Routing(product_id="notes", mode=Mode.ON, share=1.0)
    assert {on.side(job) for job in jobs} == {Side.LEARNED}


def test_harm_switches_back_to_the_shadow_and_says_what_it_was() -> None:
    well = counted(a_rollout(Mode.ON), Arm(tries=5, passes=5), Arm(tries=5, passes=5), now=after(1))
    assert (well.mode, well.tripped, well.learned.tries) == (Mode.ON, None, 5)
    harmed = counted(well, Arm(tries=40), Arm(tries=40, passes=40), now=after(2))
    assert (harmed.mode, harmed.share, harmed.explore) == (Mode.SHADOW, 0.0, 0.0)
    assert harmed.tripped is not None
    assert (harmed.tripped.guardrail, harmed.tripped.mode) == ("success", Mode.ON)
    assert harmed.tripped.reason == (
        "fewer jobs pass at once: 5 of 45 where learned, 45 of 45 elsewhere"
    )
    assert harmed.trial == well.trial + 1


def test_a_rise_of_cost_is_told_in_per_cent() -> None:
    def costs(nanos: float) -> Arm:
        each = round(1000 * math.log(nanos))
        return Arm(priced=50, log_nanos=50 * each, log_nanos_squared=50 * each**2)

    harmed = counted(a_rollout(Mode.AB), costs(2e9), costs(1e9), now=NOON)
    assert harmed.tripped is not None
    assert harmed.tripped.reason == "jobs cost more: 100 % more than elsewhere"


def test_what_is_not_acted_on_cannot_do_harm() -> None:
    watched = counted(a_rollout(Mode.SHADOW), Arm(tries=90), Arm(tries=90, passes=90), now=NOON)
    assert (watched.mode, watched.tripped) == (Mode.SHADOW, None)
