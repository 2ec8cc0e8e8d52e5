"""Decisions with a learned model: shadow, share, random draws and propensities."""

import msgspec
import pytest
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.insights.observation import Cell, RoutingChoice
from gigafactory.domain.insights.routing_model import fit_model
from gigafactory.domain.insights.routing_predictor import (
    DEFAULT_WEIGHT,
    VALUES_MAX,
    RoutingPredictor,
)
from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingRollout, RoutingSide
from gigafactory.domain.insights.tally import increment_for_run
from gigafactory.domain.job.job import Ask, Job, Result
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.scheduler import pick_jobs, pick_offer
from gigafactory.domain.tenancy.product import Product, Weights
from tests.support.builders import NOON, a_checkpoint, a_job, a_run, a_shipping_job
from tests.support.observations import KNOWN, NOTES, an_observation
from tests.support.small_fleet import a_fleet, a_linux, a_queue, an_offer, pick_job

BOTH = {"claude": EngineSeats(seats=2), "codex": EngineSeats(seats=2)}
ASK = Ask(repo="notes")


def a_guided_fleet(routing: RoutingRollout | None, *names: str, **seats: int) -> FleetState:
    """Return a fleet whose factories have both engines and whose model prefers codex."""
    machines = [a_linux(name, engines=BOTH, slots=2) for name in names or ("mac-1",)]
    fleet = a_fleet(*machines, now=NOON, **seats)
    fleet.predictor.use_model(fit_model(KNOWN.items()), KNOWN.items())
    if routing is not None:
        fleet.predictor.put(routing)
    return fleet


def a_rollout(mode: RolloutMode, *, share: float = 0.0, explore: float = 0.0) -> RoutingRollout:
    return RoutingRollout(product_id="notes", mode=mode, share=share, explore=explore, trial=3)


def waiting(job_id: str = "job-1", **fields: object) -> Job:
    return a_job(id=job_id, **({"ask": ASK, "profile": "coder@2", "words": 10} | fields))


def routed(pick: Pick | None) -> RoutingRecord:
    assert pick is not None
    assert isinstance(pick.decision.routing, RoutingRecord)
    return pick.decision.routing


def pulled(fleet: FleetState, job: Job) -> Pick:
    pick = pick_job(a_queue(job), fleet, "mac-1", now=NOON)
    assert pick is not None
    return pick


@pytest.mark.parametrize("routing", [None, a_rollout(RolloutMode.OFF)])
def test_learned_routing_that_is_off_changes_and_records_nothing(
    routing: RoutingRollout | None,
) -> None:
    pick = pulled(a_guided_fleet(routing), waiting())
    assert pick.engine == "claude"
    assert pick.decision.propensity == 1.0
    assert pick.decision.terms["learned"].value == 0.0
    assert pick.decision.routing is msgspec.UNSET
    assert "routing" not in pick.decision.to_json()


def test_shadow_mode_records_the_learned_choice_without_acting_on_it() -> None:
    plain = pulled(a_guided_fleet(None), waiting())
    pick = pulled(a_guided_fleet(a_rollout(RolloutMode.SHADOW)), waiting())
    assert (pick.engine, pick.decision.score) == (plain.engine, plain.decision.score)
    decision = routed(pick)
    assert (decision.mode, decision.trial, decision.side, decision.explored) == (
        "shadow",
        3,
        "heuristic",
        False,
    )
    assert (
        decision.choices[decision.chosen].engine
        == decision.choices[decision.heuristic].engine
        == "claude"
    )
    assert decision.choices[decision.learned].engine == "codex"
    assert decision.choices[decision.learned].success > decision.choices[decision.chosen].success
    learned = pick.decision.terms["learned"]
    assert 0.0 < learned.value < 1.0
    assert learned.weight == 0.0


def test_learned_term_decides_and_is_shown_with_its_weight() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0))
    pick = pulled(fleet, waiting())
    assert pick.engine == "codex"
    assert routed(pick).side is RoutingSide.LEARNED
    assert pick.decision.propensity == 1.0
    learned = pick.decision.terms["learned"]
    assert learned.weight == DEFAULT_WEIGHT
    others = sum(t.value * t.weight for n, t in pick.decision.terms.items() if n != "learned")
    assert pick.decision.score == pytest.approx(others + learned.value * learned.weight, abs=1e-3)
    assert "engine codex 200" in routed(pick).stands_on
    fleet.put_product(Product(id="notes", weights=Weights(learned=0.5)))
    assert pulled(fleet, waiting("job-2")).decision.terms["learned"].weight == 0.5


def test_requested_engine_and_hard_filters_override_the_learned_choice() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0))
    assert pulled(fleet, waiting()).engine == "codex"
    asked = replace(waiting("job-2"), ask=replace(ASK, engine="claude"))
    assert pulled(fleet, asked).engine == "claude"
    unroutable = replace(waiting("job-3"), ask=replace(ASK, needs=("has:figma",)))
    assert pick_job(a_queue(unroutable), fleet, "mac-1", now=NOON) is None
    seated = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0), codex=0)
    assert pulled(seated, waiting()).engine == "claude"


def test_offer_goes_to_the_engine_and_factory_with_the_best_prediction() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0), "linux-1", "mac-1")
    pick = pick_offer(a_queue(waiting()), fleet, now=NOON)
    assert pick is not None
    assert pick.engine == "codex"
    assert [r.factory_id for r in pick.decision.runners_up] != [pick.factory_id]
    assert pick.decision.runners_up[0].score <= pick.decision.score
    plain = pick_offer(a_queue(waiting()), a_guided_fleet(a_rollout(RolloutMode.SHADOW)), now=NOON)
    assert plain is not None
    assert plain.engine == "claude"
    empty = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0))
    unroutable = replace(waiting("job-3"), ask=replace(ASK, needs=("has:figma",)))
    assert pick_offer(a_queue(unroutable), empty, now=NOON) is None


def test_equal_jobs_are_routed_alike_and_each_is_recorded() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0), "linux-1", "mac-1")
    queue = a_queue(*(waiting(f"job-{n}") for n in range(4)))
    picks = []
    for pick in pick_jobs(queue, fleet, "mac-1", now=NOON):
        fleet.reserve(pick.job_id, pick.factory_id, pick.engine, pick.seats, now=NOON)
        queue.remove(pick.job_id)
        picks.append(pick)
    assert [pick.engine for pick in picks] == ["codex", "codex"]
    assert all(routed(pick).side is RoutingSide.LEARNED for pick in picks)


def test_half_of_the_jobs_are_always_on_the_learned_side() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.AB, share=0.5))
    sides = [routed(pulled(fleet, waiting(f"job-{n}"))).side for n in range(200)]
    assert 70 < sides.count(RoutingSide.LEARNED) < 130
    assert sides == [routed(pulled(fleet, waiting(f"job-{n}"))).side for n in range(200)]


def test_explored_choice_has_the_recorded_probability() -> None:
    rollout = a_rollout(RolloutMode.ON, share=1.0, explore=0.5)
    fleet = a_guided_fleet(rollout, "linux-1", "mac-1")
    seen: dict[tuple[str | None, str], int] = {}
    for number in range(400):
        pick = pick_offer(a_queue(waiting(f"job-{number}")), fleet, now=NOON)
        decision = routed(pick)
        assert pick is not None
        assert decision.choices[decision.chosen].engine == pick.engine
        assert pick.decision.propensity == (1 / 4 if decision.explored else 1.0)
        if decision.explored:
            assert len(decision.choices) == 4
            name = (pick.engine, pick.factory_id)
            seen[name] = seen.get(name, 0) + 1
    assert len(seen) == 4
    assert 150 < sum(seen.values()) < 250
    assert min(seen.values()) > 25


def test_single_choice_is_never_explored() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.SHADOW, explore=0.5), claude=2, codex=0)
    picks = [pulled(fleet, waiting(f"job-{n}")) for n in range(20)]
    assert {pick.decision.propensity for pick in picks} == {1.0}
    assert not any(routed(pick).explored for pick in picks)


def test_accepted_offer_keeps_its_propensity() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0, explore=0.5), "linux-1", "mac-1")
    for number in range(50):
        job = waiting(f"job-{number}")
        pick = pick_offer(a_queue(job), fleet, now=NOON)
        if routed(pick).explored:
            break
    assert pick is not None
    offer = an_offer(pick.factory_id, engine=pick.engine, decision=pick.decision.to_json())
    again = pick_job(a_queue(replace(job, offer=offer)), fleet, pick.factory_id, now=NOON)
    assert again is not None
    assert (again.engine, again.decision.propensity) == (pick.engine, 1 / 4)
    assert routed(again) == routed(pick)
    silent = an_offer("mac-1", engine="claude")
    plain = pick_job(a_queue(waiting(offer=silent)), a_guided_fleet(None), "mac-1", now=NOON)
    assert plain is not None
    assert plain.decision.routing is msgspec.UNSET


def test_ship_step_is_not_routed() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0))
    job = replace(a_shipping_job(lease=None), ask=ASK)
    pick = pick_job(a_queue(job), fleet, "mac-1", now=NOON)
    assert pick is not None
    assert pick.decision.routing is msgspec.UNSET


def test_job_with_checkpoint_and_own_model_is_routed() -> None:
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0))
    job = waiting(checkpoint=a_checkpoint(), model="big")
    decision = routed(pulled(fleet, job))
    assert decision.choices[decision.chosen].engine == "codex"
    assert "model" not in decision.stands_on


def test_predictor_cache_is_bounded_without_changing_decisions() -> None:
    known = {**KNOWN, Cell(NOTES, RoutingChoice("claude", "mac-1")): an_observation(5, 5)}
    fleet = a_guided_fleet(None)
    for fleet.predictor in (RoutingPredictor(kept_max=1), RoutingPredictor()):
        fleet.predictor.use_model(fit_model(known.items()), known.items())
        fleet.predictor.put(a_rollout(RolloutMode.ON, share=1.0))
        ones = [pulled(fleet, waiting(f"job-{n}")) for n in range(3)]
        others = [pulled(fleet, waiting(f"job-{n}", profile="tester@1")) for n in range(3)]
        assert {pick.engine for pick in (*ones, *others)} == {"codex"}


def test_large_fleet_exceeding_the_value_cache_is_routed() -> None:
    names = [f"mac-{n}" for n in range(VALUES_MAX)]
    fleet = a_guided_fleet(a_rollout(RolloutMode.ON, share=1.0), *names)
    queue = a_queue(waiting())
    for name in (*names, *names):
        pick = pick_job(queue, fleet, name, now=NOON)
        assert pick is not None
        assert pick.engine == "codex"


def test_run_increment_records_its_routing() -> None:
    pick = pulled(a_guided_fleet(a_rollout(RolloutMode.SHADOW)), waiting())
    begun = a_run(decision=pick.decision.to_json())
    increment = increment_for_run(begun, replace(begun, ended_at=NOON, result=Result.OK, rev=2))
    assert increment is not None
    assert (increment.routing, increment.propensity) == (routed(pick), 1.0)
    assert a_rollout(RolloutMode.SHADOW).key == "notes"


def test_older_revision_of_a_rollout_is_ignored() -> None:
    fleet = a_guided_fleet(replace(a_rollout(RolloutMode.OFF), rev=7))
    fleet.predictor.put(replace(a_rollout(RolloutMode.ON, share=1.0), rev=6))
    assert not fleet.predictor.is_active
    assert pulled(fleet, waiting()).engine == "claude"
