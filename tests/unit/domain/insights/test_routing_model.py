"""The model: little data stays close to the prior, much data decides, and order is irrelevant."""

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.insights.observation import Cell, Observation, RoutingChoice, TaskFeatures
from gigafactory.domain.insights.routing_model import (
    EFFECTS,
    OF_TASKS,
    PRIOR_SHARE,
    fit_in_steps,
    fit_model,
    logistic,
)
from tests.support.observations import KNOWN, NOTES, a_cell, an_observation

pytestmark = pytest.mark.slow

CLAUDE = RoutingChoice("claude", "mac-1", "m")
CODEX = RoutingChoice("codex", "mac-1", "m")

tasks = st.builds(
    TaskFeatures,
    st.sampled_from(["notes", "shop"]),
    st.sampled_from([None, "notes", "web"]),
    st.sampled_from([None, "coder", "tester"]),
    st.sampled_from([None, "python"]),
    st.sampled_from([None, "small", "large"]),
)
choices = st.builds(
    RoutingChoice,
    st.sampled_from(["claude", "codex"]),
    st.sampled_from([None, "mac-1", "mac-2"]),
    st.sampled_from([None, "big", "small"]),
)
lessons = st.integers(1, 50).flatmap(
    lambda n: st.builds(an_observation, st.just(n), st.integers(0, n), seconds=st.floats(1.0, 9e3))
)
books = st.dictionaries(st.builds(Cell, tasks, choices), lessons, max_size=12)


def test_model_without_data_predicts_the_prior() -> None:
    found = fit_model([]).predict(NOTES, CLAUDE)
    assert found.success == pytest.approx(PRIOR_SHARE)
    assert found.seconds == pytest.approx(600.0)
    assert found.cost_nano_usd == pytest.approx(5e8)
    assert found.evidence_text == "first tries: none"


def test_prediction_with_much_data_is_close_to_the_observed_rate() -> None:
    model = fit_model(KNOWN.items())
    assert model.predict(NOTES, CLAUDE).success == pytest.approx(0.4, abs=0.03)
    assert model.predict(NOTES, CODEX).success == pytest.approx(0.95, abs=0.03)
    usual = math.exp(model.task_baseline(NOTES).log_nanos / 1000)
    assert model.predict(NOTES, CODEX).cost_nano_usd < 0.5 * usual


def test_prediction_with_little_data_stays_close_to_the_overall_rate() -> None:
    crowd = {a_cell("claude"): an_observation(400, 280)}
    one = {**crowd, a_cell("codex"): an_observation(1, 0)}
    usual = fit_model(crowd.items()).predict(NOTES, CODEX).success
    after_one = fit_model(one.items()).predict(NOTES, CODEX).success
    assert usual - 0.1 < after_one < usual


def test_engine_that_got_the_hard_jobs_is_not_blamed_for_them() -> None:
    hard = replace(NOTES, repo="hard")
    known = {
        a_cell("claude", task=NOTES): an_observation(200, 180),
        a_cell("codex", task=NOTES): an_observation(20, 18),
        a_cell("claude", task=hard): an_observation(20, 4),
        a_cell("codex", task=hard): an_observation(200, 40),
    }
    model = fit_model(known.items())
    gap = model.predict(NOTES, CLAUDE).success - model.predict(NOTES, CODEX).success
    # Overall rates, which ignore the repos, differ by more than fifty points.
    assert abs(gap) < 0.08


def test_prediction_names_its_evidence() -> None:
    result = fit_model(KNOWN.items()).predict(NOTES, CODEX).evidence_text
    assert result.startswith("first tries: product notes 400, profile coder 400")
    assert "engine codex 200" in result
    assert "engine on the factory codex 200" in result


def test_prediction_without_repo_profile_or_factory_uses_fewer_groups() -> None:
    found = fit_model(KNOWN.items()).predict(TaskFeatures("notes"), RoutingChoice("claude"))
    assert [each.name for each in found.evidence] == ["product", "engine"]


@given(books)
def test_predicted_success_is_a_probability_and_time_and_cost_are_positive(
    book: Mapping[Cell, Observation],
) -> None:
    model = fit_model(book.items())
    for cell in (*book, a_cell("pi", "nowhere")):
        found = model.predict(cell.task, cell.choice)
        assert 0.0 < found.success < 1.0
        assert found.seconds > 0.0
        assert found.cost_nano_usd > 0.0
        assert math.isfinite(found.seconds + found.cost_nano_usd)


@given(books, st.randoms(use_true_random=False))
def test_order_of_observations_does_not_change_the_model(
    book: Mapping[Cell, Observation], rng: random.Random
) -> None:
    shuffled = list(book.items())
    rng.shuffle(shuffled)
    assert fit_model(shuffled) == fit_model(book.items())


@given(st.integers(1, 200), st.data())
def test_one_more_success_raises_the_predicted_success(tries: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(0, tries - 1))
    others = {a_cell("claude"): an_observation(50, 30)}
    chances = [
        fit_model([*others.items(), (a_cell("codex"), an_observation(tries, n))])
        .predict(NOTES, CODEX)
        .success
        for n in (passes, passes + 1)
    ]
    assert chances[0] < chances[1]


def test_model_fit_yields_between_steps() -> None:
    steps = list(fit_in_steps(KNOWN.items()))
    assert len(steps) > len(EFFECTS)
    assert all(step is None for step in steps[:-1])
    assert steps[-1] == fit_model(KNOWN.items())


def test_engine_and_factory_sums_add_up_to_the_prediction() -> None:
    model = fit_model(KNOWN.items())
    wherever = model.engine_sums(NOTES, RoutingChoice("codex", None, "m"))
    there = model.factory_sums("codex", "mac-1")
    assert logistic(wherever.odds + there.odds) == pytest.approx(
        model.predict(NOTES, CODEX).success
    )


def test_first_effects_depend_on_the_task_alone() -> None:
    one, other = RoutingChoice("claude", "mac-1", "m"), RoutingChoice("codex", "mac-2", "n")
    alike = [effect.group(NOTES, one) == effect.group(NOTES, other) for effect in EFFECTS]
    assert alike == [True] * OF_TASKS + [False] * (len(EFFECTS) - OF_TASKS)
