"""The terms of the score and the messages of the filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.job.job import Ask, Exclusion, Job, ShipRequest, Stage
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob
from gigafactory.domain.scheduler.scoring import (
    JobPoolScorer,
    affinity,
    cost_fit,
    find_rejection,
    scarcity,
    starvation,
)
from gigafactory.domain.tenancy.product import Weights
from tests.support.builders import NOON, a_checkpoint, a_factory, a_job, a_running_job, after
from tests.support.small_fleet import a_fleet, ask_for

CLAUDE = EngineChoice("claude", "claude", 0)
USD = 1_000_000_000
unit = st.floats(0.0, 1.0)


def waiting(**fields: object) -> QueuedJob:
    job = a_job(**fields)
    assert job.step is not None
    return QueuedJob.of(job, JobClass.of(job, job.step))


def a_fit(**fields: object) -> Fit:
    values: dict[str, object] = {
        "engines": (CLAUDE,),
        "matched": (),
        "capability": 1.0,
        "prefers_met": 0,
        "warm": False,
    }
    return Fit(**(values | fields))  # type: ignore[arg-type]


def refusal(fleet: FleetState, job: Job, *, seconds: float = 0.0) -> Rejection | None:
    now = after(seconds)
    fleet.advance(now)
    member = fleet.member("mac-1")
    assert member is not None
    assert job.step is not None
    kind = JobClass.of(job, job.step)
    return find_rejection(fleet, member, kind, QueuedJob.of(job, kind), now)


def test_affinity_is_the_share_of_met_preferences() -> None:
    ask = ask_for(
        prefers=("has:xcode", "factory:mac-1"), repo="notes", prefers_engine=("claude", "codex")
    )
    job = waiting(ask=ask, checkpoint=a_checkpoint())
    met = a_fit(prefers_met=1, warm=True)
    assert affinity(met, job, CLAUDE, "mac-1") == 1.0
    assert affinity(met, job, CLAUDE, "mac-2") == pytest.approx((0.5 + 1 + 1 + 0) / 4)
    assert affinity(a_fit(), job, EngineChoice("codex", "codex", 1), "mac-2") == 0.0
    assert affinity(a_fit(), waiting(), CLAUDE, "mac-1") == 0.0


def test_expensive_seat_fits_a_small_budget_badly() -> None:
    assert cost_fit(0, USD, None) == 1.0
    assert cost_fit(3, USD, None) == 0.0
    assert cost_fit(3, 100 * USD, None) == 1.0
    assert cost_fit(3, None, None) == 0.5
    assert cost_fit(3, 100 * USD, 0.25) == 0.25
    assert cost_fit(1, None, 1.0) > cost_fit(2, None, 1.0)


def test_starvation_term_falls_to_zero_in_half_an_hour() -> None:
    assert [starvation(minutes * 60) for minutes in (-1, 0, 15, 30, 90)] == [1, 1, 0.5, 0, 0]


def test_scarcity_counts_only_capabilities_the_job_does_not_need() -> None:
    rare = (("gpu", 0.9), ("has:xcode", 0.5))
    assert scarcity(waiting().job_class, rare) == 0.9
    assert scarcity(waiting(ask=ask_for("gpu")).job_class, rare) == 0.5
    assert scarcity(waiting(ask=ask_for("gpu", "has:xcode")).job_class, rare) == 0.0


@given(unit, unit, unit, unit, st.floats(-100, 10_000))
def test_score_is_the_weighted_sum_of_terms_between_zero_and_one(
    wishes: float, load: float, health: float, capability: float, waited: float
) -> None:
    fit = a_fit(capability=capability)
    cost = cost_fit(2, None, None)
    rare = (("gpu", 0.5),)
    appraisal = JobPoolScorer(waiting(), fit, Weights(), cost=cost, waited_s=waited, rare=rare)
    score = appraisal.breakdown(wishes, load, health)
    assert score.total == appraisal.score(wishes, load, health)
    assert all(0.0 <= term.value <= 1.0 for term in score.terms.values())
    added = sum(term.value * term.weight for term in score.terms.values())
    assert score.total == pytest.approx(added, abs=1e-3)


def test_weights_of_the_product_are_applied() -> None:
    only_health = Weights(
        capability_fit=0, affinity=0, load=0, cost_fit=0, health=2, starvation=0, scarcity=0
    )
    appraisal = JobPoolScorer(waiting(), a_fit(), only_health, cost=1.0, waited_s=0.0, rare=())
    assert appraisal.score(1.0, 0.0, 0.5) == 1.0


def cooling() -> Factory:
    return a_factory(
        slots=9,
        engines={
            "claude": EngineSeats(cooling_until=after(60)),
            "codex": EngineSeats(unavailable="not logged in"),
        },
    )


@pytest.mark.parametrize(
    ("fleet", "ask", "code", "message"),
    [
        (a_fleet(a_factory()), ask_for("gpu"), "capability", "it lacks gpu"),
        (
            a_fleet(a_factory()),
            ask_for("factory:mac-2"),
            "capability",
            "the job is for mac-2",
        ),
        (
            a_fleet(a_factory(), now=after(-600)),
            ask_for(),
            "offline",
            "it has sent no heartbeat since 2026-01-01 11:50 UTC",
        ),
        (
            a_fleet(a_factory(slots=0)),
            ask_for(),
            "busy",
            "every slot is taken: 0 of 0",
        ),
        (
            a_fleet(cooling()),
            ask_for(),
            "busy",
            "claude cools down until 2026-01-01 12:01:00 UTC; codex is unavailable: not logged in",
        ),
        (
            a_fleet(a_factory(), claude=0),
            ask_for(),
            "busy",
            "every claude seat of the fleet is busy: 0 of 0",
        ),
    ],
)
def test_rejection_has_an_actionable_message(
    fleet: FleetState, ask: Ask, code: str, message: str
) -> None:
    assert refusal(fleet, a_job(ask=ask)) == Rejection(code, message)


def test_factory_without_a_heartbeat_is_rejected_as_offline() -> None:
    fleet = FleetState()
    fleet.put(a_factory())
    assert refusal(fleet, a_job()) == Rejection("offline", "it has sent no heartbeat so far")


def test_unhealthy_factory_is_rejected_with_its_health() -> None:
    fleet = a_fleet(a_factory())
    fleet.record_vitals("mac-1", Vitals(last_seen=NOON, faults=0.8))
    assert refusal(fleet, a_job()) == Rejection("unhealthy", "its health is 0.20, below 0.3")


def test_busy_engine_is_rejected_with_its_seats() -> None:
    fleet = a_fleet(a_factory(engines={"claude": EngineSeats(seats=1)}))
    fleet.put_job(a_running_job(id="other"))
    assert refusal(fleet, a_job()) == Rejection("busy", "every claude seat is busy: 1 of 1")


def test_excluded_factory_is_rejected_until_the_exclusion_ends() -> None:
    fleet = a_fleet(a_factory())
    job = a_job(exclusions=(Exclusion("mac-1", after(30)),))
    sentence = "it is excluded from this job until 12:00:30 UTC"
    assert refusal(fleet, job) == Rejection("excluded", sentence)
    assert refusal(fleet, job, seconds=30) is None


def test_ship_step_needs_only_a_slot() -> None:
    fleet = a_fleet(a_factory(slots=1, engines={}))
    job = a_job(stage=Stage.TESTING, ship=ShipRequest(by="ann", commit=None, at=NOON))
    assert refusal(fleet, job) is None
