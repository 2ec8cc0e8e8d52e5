"""Learned choices in random fleets: hard filters hold, and shadow mode changes no decision."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.insights.observation import TaskFeatures
from gigafactory.domain.insights.routing_model import fit_model
from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout
from gigafactory.domain.job.job import Job, Step
from gigafactory.domain.scheduler.decision import Pick
from tests.support.observations import a_cell, an_observation
from tests.support.small_fleet import NO_DEADLINE, a_queue
from tests.unit.domain.scheduler.test_scheduler_properties import (
    Told,
    a_view,
    check_possible,
    every_pick,
    factories,
    jobs,
)

pytestmark = pytest.mark.slow

SHOP = TaskFeatures("shop", "notes")
LESSONS = {
    a_cell("claude", "f0"): an_observation(90, 20),
    a_cell("codex", "f1"): an_observation(90, 80),
    a_cell("codex", "f0", SHOP): an_observation(90, 10),
    a_cell("claude", "f2", SHOP): an_observation(90, 85),
}
rollouts = st.builds(
    RoutingRollout,
    product_id=st.sampled_from(["notes", "shop"]),
    mode=st.sampled_from(RolloutMode),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    explore=st.sampled_from([0.0, 0.5]),
)


def guided(told: Told, *rollouts: RoutingRollout) -> FleetState:
    fleet = a_view(told)
    fleet.predictor.use_model(fit_model(LESSONS.items()), LESSONS.items())
    for rollout in rollouts:
        fleet.predictor.put(rollout)
    return fleet


def placed(picks: list[Pick]) -> list[tuple[str, str, str | None, float]]:
    return [(p.job_id, p.factory_id, p.engine, p.decision.score) for p in picks]


@NO_DEADLINE
@given(jobs, factories, rollouts)
def test_hard_filters_override_learned_choices(
    waiting: list[Job], told: Told, rollout: RoutingRollout
) -> None:
    known, machines = {job.id: job for job in waiting}, {each[0].id: each for each in told}
    for pick in every_pick(a_queue(*waiting), guided(told, rollout)):
        check_possible(known[pick.job_id], *machines[pick.factory_id], pick)
        routed = pick.decision.routing
        guided_here = rollout.mode is not RolloutMode.OFF and pick.step is Step.RUN
        assert isinstance(routed, RoutingRecord) == (
            guided_here and known[pick.job_id].product_id == rollout.product_id
        )
        explored = isinstance(routed, RoutingRecord) and routed.explored
        assert (pick.decision.propensity < 1.0) == explored
        if isinstance(routed, RoutingRecord):
            chosen = routed.choices[routed.chosen]
            assert (chosen.engine, chosen.factory_id) == (pick.engine, pick.factory_id)


@NO_DEADLINE
@given(jobs, factories, rollouts)
def test_decisions_are_deterministic(
    waiting: list[Job], told: Told, rollout: RoutingRollout
) -> None:
    first = every_pick(a_queue(*waiting), guided(told, rollout))
    again = every_pick(a_queue(*reversed(waiting)), guided(told[::-1], rollout))
    assert [msgspec.json.encode(p.decision) for p in first] == [
        msgspec.json.encode(p.decision) for p in again
    ]


@NO_DEADLINE
@given(jobs, factories, st.sampled_from([RolloutMode.OFF, RolloutMode.SHADOW]))
def test_off_and_shadow_modes_do_not_change_decisions(
    waiting: list[Job], told: Told, mode: RolloutMode
) -> None:
    watched = guided(told, RoutingRollout(product_id="notes", mode=mode, share=1.0))
    assert placed(every_pick(a_queue(*waiting), watched)) == placed(
        every_pick(a_queue(*waiting), a_view(told))
    )
