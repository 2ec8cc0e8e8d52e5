"""Error budgets: errors against the allowed number."""

from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.coordinator.insights.slo import Objectives
from gigafactory.domain.insights.slo import ERROR_BUDGETS, Objective, SloMeasurement
from gigafactory.domain.tenancy.access import Caller, Role
from tests.support.api_server import SYSTEM, a_coordinator
from tests.support.factory.local_fleet import Clock


@pytest.mark.parametrize(
    ("wrong", "of", "share", "left"),
    [(0, 0, None, None), (0, 10, 0.0, 1.0), (3, 10, 0.3, 0.0), (6, 10, 0.6, -1.0)],
)
def test_error_budget_left_is_the_allowance_minus_the_errors(
    wrong: int, of: int, share: float | None, left: float | None
) -> None:
    assert ERROR_BUDGETS[Objective.FIRST_PASS] == 0.3
    measurement = SloMeasurement(Objective.FIRST_PASS, wrong, of, "today")
    assert measurement.share == share
    assert measurement.error_budget_left == (left if left is None else pytest.approx(left))


@pytest.mark.parametrize(("wrong", "left"), [(0, 1.0), (2, 0.0)])
def test_zero_tolerance_objective_has_all_or_none_of_its_error_budget(
    wrong: int, left: float
) -> None:
    measurement = SloMeasurement(Objective.DOUBLE_MERGES, wrong, 10, "today")
    assert (measurement.error_budget_left, measurement.promise) == (left, "no job is shipped twice")
    sometimes = SloMeasurement(Objective.FIRST_PASS, wrong, 10, "today")
    assert sometimes.promise == "the first run of a job comes out well, 70 % of the time"


async def test_objectives_are_measured_per_product_and_absent_without_data(tmp_path: Path) -> None:
    clock = Clock()
    coordinator = a_coordinator(tmp_path, clock=clock)
    counters = coordinator.metrics.counters
    objectives = Objectives(clock, counters, coordinator.insights)
    nothing = await objectives.measure(SYSTEM)
    assert [each.objective for each in nothing] == list(Objective)
    assert {each.error_budget_left for each in nothing} == {None}
    assert objectives.waits(SYSTEM).jobs == 0
    for product, seconds in (("notes", 4.9), ("notes", 5.0), ("notes", 5.1), ("shop", 9.0)):
        counters.assign_s.observe(seconds, product)
        counters.wait_s.observe(seconds, product)
    counters.reclaim_s.observe(31.0)
    counters.jobs_ended["notes", "shipped"] = 3
    counters.jobs_ended["notes", "dead_letter"] = 1
    counters.jobs_ended["shop", "shipped"] = 1
    counters.budget_breaches["shop"] = 1
    counters.wait_s.observe(90.0, "slow")
    clock.advance(timedelta(hours=2))

    async def measure(caller: Caller) -> dict[str, tuple[int, int]]:
        return {each.objective: (each.wrong, each.of) for each in await objectives.measure(caller)}

    everything = await measure(SYSTEM)
    assert everything == {
        "assignment": (2, 4),
        "wait": (0, 5),
        "first-pass": (0, 0),
        "escaped-defects": (0, 0),
        "budget": (1, 5),
        "dead-letters": (1, 5),
        "reclaim": (1, 1),
        "utilization": (0, 0),
        "fair-waits": (1, 3),
        "double-merges": (0, 4),
        "claim-violations": (0, 5),
    }
    counters.violations["double_ship"] = counters.violations["double_lease"] = 1
    assert (await measure(SYSTEM))["double-merges"] == (1, 4)
    assert (await measure(SYSTEM))["claim-violations"] == (1, 5)
    notes = Caller(actor="user:ann", role=Role.VIEWER, products=("*",), product="notes")
    assert (await measure(notes))["assignment"] == (1, 3)
    assert (await measure(notes))["budget"] == (0, 4)
    assert (await measure(notes))["fair-waits"] == (0, 0), (
        "a single product cannot be treated unfairly"
    )
    waits = objectives.waits(notes)
    assert (waits.jobs, waits.seconds) == (3, 15.0)
    assert "2 h" in objectives.window
