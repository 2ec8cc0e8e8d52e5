"""Observations: taken from a run, counted once, and moved to the right cell."""

from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from gigafactory.domain.insights.observation import (
    MONTHS_KEPT,
    NO_OBSERVATION,
    CellUpdate,
    Observation,
    add_observations,
    cell_of,
    cell_updates,
    month_offset,
    observe_run,
    retained_months,
)
from gigafactory.domain.insights.observation_tally import ObservationBatch, observation_key
from gigafactory.domain.insights.tally import Tally, first_try_updates, increment_for_run
from gigafactory.domain.job.features import features_of, language_of, profile_name, size_of
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run, Usage
from tests.support.builders import NOON, a_run, after
from tests.support.observations import a_cell, an_observation


def ended(**fields: object) -> Run:
    usage = Usage(engine="claude", model="m", cost_nano_usd=500_000_000)
    usual = {"ended_at": after(600), "result": Result.OK, "usage": usage, "repo": "notes"}
    return a_run(**(usual | fields))


def test_judged_run_yields_an_observation() -> None:
    assert observe_run(ended()) == an_observation(1, 1)
    assert observe_run(ended(result=Result.VERIFY_FAILED)) == an_observation(1, 0)
    assert observe_run(ended(usage=None)) == an_observation(1, 1, usd=None)
    free = ended(usage=Usage(engine="claude", cost_nano_usd=0))
    assert observe_run(free) == an_observation(1, 1, usd=0.001)


@pytest.mark.parametrize(
    "run",
    [
        None,
        a_run(),
        ended(step=Step.SHIP),
        ended(engine=None),
        ended(result=None),
        ended(result=Result.RATE_LIMITED),
    ],
)
def test_run_that_cannot_be_judged_yields_no_observation(run: Run | None) -> None:
    assert observe_run(run) == NO_OBSERVATION


def test_cell_of_a_run_has_its_task_features_and_choice() -> None:
    cell = cell_of(ended(profile="coder@3", language="python", words=10))
    assert cell is not None
    assert cell == a_cell()
    assert cell_of(ended(engine=None)) is None
    bare = cell_of(ended(usage=None))
    assert bare is not None
    assert bare.choice.model is None


def test_cell_updates_of_a_run_sum_to_its_observation() -> None:
    begun, done = a_run(repo="notes"), ended()
    cell = cell_of(done)
    assert cell is not None
    assert cell_updates(None, begun) == ()
    assert cell_updates(begun, done) == (CellUpdate(cell, an_observation(1, 1)),)
    costlier = replace(done, usage=Usage(model="m", cost_nano_usd=10**9), rev=2)
    (more,) = cell_updates(done, costlier)
    assert add_observations(an_observation(1, 1), more.observation) == observe_run(costlier)
    assert cell_updates(costlier, replace(costlier, rev=3)) == ()
    assert cell_updates(None, ended(engine=None)) == ()


def test_model_reported_later_moves_the_observation_to_its_cell() -> None:
    silent, result = ended(usage=None), ended(usage=Usage(model="m"), rev=2)
    away, here = cell_updates(silent, result)
    assert away.cell.choice.model is None
    assert add_observations(away.observation, observe_run(silent)) == NO_OBSERVATION
    assert (here.cell.choice.model, here.observation) == ("m", observe_run(result))
    moved = increment_for_run(silent, result)
    assert moved is not None
    assert not moved.ends_run
    assert first_try_updates(moved, []) == (away, here)


def test_only_the_first_try_of_a_job_is_observed() -> None:
    second = increment_for_run(None, ended(number=2, id="job-1.2"))
    assert second is not None
    assert first_try_updates(second, [ended(result=Result.LOST)]) == second.updates
    assert first_try_updates(second, [ended(result=Result.TIMEOUT)]) == ()
    first = ended(number=2, id="job-1.2")
    late = increment_for_run(first, replace(first, usage=Usage(model="m", cost_nano_usd=7), rev=2))
    assert late is not None
    assert first_try_updates(late, []) == ()


def test_observations_are_added_to_the_tally_of_their_month() -> None:
    many = ObservationBatch()
    cell = a_cell()
    many.add(
        "2026-01", [CellUpdate(cell, an_observation(1, 1)), CellUpdate(cell, an_observation(1, 0))]
    )
    (saved,) = many.writes({})
    kept = saved.after
    assert isinstance(kept, Tally)
    assert list(many.keys) == [kept.key] == [observation_key("2026-01", cell)]
    assert kept.key.startswith("*/crossed/m2026-01/")
    assert (kept.cell, kept.observation) == (cell, an_observation(2, 1))
    (again,) = many.writes({kept.key: kept})
    assert isinstance(again.after, Tally)
    assert (again.after.observation, again.after.rev) == (an_observation(4, 2), 2)


def test_observations_are_retained_for_a_fixed_number_of_months() -> None:
    assert month_offset("2026-11", 3) == date(2027, 2, 1)
    assert month_offset("2026-01", -1) == date(2025, 12, 1)
    held = retained_months(NOON.date())
    assert len(held) == MONTHS_KEPT
    assert held[0] == f"{NOON:%Y-%m}"
    assert held[1] == f"{NOON.date().replace(day=1) - timedelta(days=1):%Y-%m}"


@pytest.mark.parametrize(
    ("needs", "language"),
    [
        ((), None),
        (("os:mac", "has:figma"), None),
        (("node>=20", "os:mac"), "javascript"),
        (("os:mac", "has:xcode"), "swift"),
        (("python:3.12",), "python"),
    ],
)
def test_language_is_derived_from_the_required_tools(
    needs: tuple[str, ...], language: str | None
) -> None:
    assert language_of(needs) == language


def test_job_size_is_derived_from_the_length_of_its_instructions() -> None:
    assert [size_of(words) for words in (None, 0, 49, 50, 199, 200)] == [
        *(None, "small", "small"),
        *("medium", "medium", "large"),
    ]
    assert profile_name(None) is None
    assert features_of("coder@1", 3, None) is features_of("coder@2", 40, None)


def test_adding_and_subtracting_an_observation_leaves_nothing() -> None:
    assert (
        add_observations(
            add_observations(NO_OBSERVATION, an_observation(3, 2)), an_observation(3, 2), -1
        )
        == Observation()
    )
