"""The state of the fleet: which products can pay for which jobs."""

from datetime import timedelta

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import Step
from gigafactory.domain.queue.queued_job import JobClass
from tests.support.builders import NOON, a_job
from tests.support.small_fleet import ask_for
from tests.unit.domain.tenancy.test_budget import USD, a_budget


def test_product_with_a_spent_budget_is_paused_until_the_next_period() -> None:
    fleet = FleetState()
    fleet.put_budget(a_budget(spent=10 * USD), now=NOON)
    assert (fleet.stop_reason("notes") or "").startswith("the budget of product notes is spent")
    assert fleet.budget_left["notes"] == 0.0
    fleet.put_budget(a_budget(spent=10 * USD), now=NOON + timedelta(days=1))
    assert fleet.stop_reason("notes") is None
    assert fleet.budget_left["notes"] == 1.0
    fleet.put_budget(a_budget(None), now=NOON)
    assert fleet.budget_left == {}


def test_run_that_exceeds_the_remaining_budget_is_rejected() -> None:
    fleet = FleetState()
    expensive = a_job(ask=ask_for(budget_nano_usd=11 * USD))
    run = JobClass.of(expensive, Step.RUN)
    assert fleet.budget_refusal(run, NOON) is None
    fleet.put_budget(a_budget(), now=NOON)
    why = fleet.budget_refusal(run, NOON)
    assert why is not None
    assert why is fleet.budget_refusal(run, NOON)
    assert fleet.budget_refusal(JobClass.of(expensive, Step.SHIP), NOON) is None
    fleet.put_budget(a_budget(12 * USD), now=NOON)
    assert fleet.budget_refusal(run, NOON) is None
