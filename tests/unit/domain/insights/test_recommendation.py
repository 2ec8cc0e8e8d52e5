"""Recommendations: only clear improvements, each with its evidence."""

import math
import random

import pytest
from msgspec.structs import replace

from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    Observation,
    RoutingChoice,
    TaskFeatures,
    add_observations,
)
from gigafactory.domain.insights.recommendation import Recommendation, find_recommendations
from tests.support.observations import NOTES, a_cell, an_observation

rng = random.Random()


@pytest.fixture(autouse=True)
def _same_tries() -> None:
    rng.seed(3)


def tries(
    count: int, *, share: float = 0.7, seconds: float = 600.0, usd: float | None = 0.5
) -> Observation:
    """Return tries with the variance of real jobs."""
    whole = NO_OBSERVATION
    for number in range(count):
        passed = int(number < share * count)
        lasted = seconds * math.exp(rng.gauss(0.0, 0.3))
        cost = None if usd is None else usd * math.exp(rng.gauss(0.0, 0.3))
        whole = add_observations(whole, an_observation(1, passed, seconds=lasted, usd=cost))
    return whole


def recommendations(
    known: dict[Cell, Observation], product: str | None = None
) -> list[Recommendation]:
    return find_recommendations(known.items(), product)


def test_faster_and_cheaper_choice_is_recommended_with_intervals() -> None:
    designer = TaskFeatures("notes", "notes", "ux-designer")
    known = {
        Cell(designer, RoutingChoice("claude", "mac-2")): tries(64, seconds=400, usd=0.4),
        Cell(designer, RoutingChoice("claude", "mac-1")): tries(60),
        Cell(designer, RoutingChoice("codex", "mac-1")): tries(60),
    }
    (best,) = recommendations(known)
    assert best.choice == RoutingChoice("claude", "mac-2")
    assert (best.tries, best.others) == (64, 120)
    assert best.sentence.startswith("repo notes, profile ux-designer: claude on mac-2 ships ")
    assert "% faster (" in best.sentence
    assert best.sentence.endswith("% cheaper (" + best.sentence.split("% cheaper (")[1])
    assert "than the present mix (n = 64, 95 % intervals)" in best.sentence


def test_single_advantage_is_recommended_with_its_interval() -> None:
    known = {
        a_cell("claude"): tries(100, share=0.9, usd=None),
        a_cell("codex"): tries(100, share=0.5, usd=None),
    }
    (best,) = recommendations(known)
    assert best.cost is None
    assert best.success.low > 0.0
    assert not best.time.sure
    assert best.sentence.startswith("repo notes, profile coder: claude passes at once ")
    assert "points more often than the present mix (n = 100, 95 % interval " in best.sentence


def test_few_tries_or_small_differences_give_no_recommendation() -> None:
    assert recommendations({}) == []
    few = {a_cell("claude"): tries(19, share=1.0), a_cell("codex"): tries(90, share=0.1)}
    assert recommendations(few) == []
    alone = {a_cell("claude"): tries(500, share=1.0)}
    assert recommendations(alone) == []
    same = {a_cell("claude"): tries(60), a_cell("codex"): tries(60)}
    assert recommendations(same) == []


def test_choice_better_at_one_measure_and_worse_at_another_is_not_recommended() -> None:
    known = {
        a_cell("claude"): tries(100, share=0.9, usd=5.0),
        a_cell("codex"): tries(100, share=0.4, usd=0.1),
    }
    assert recommendations(known) == []
    slow = {
        a_cell("claude"): tries(100, share=0.9, seconds=4000),
        a_cell("codex"): tries(100, share=0.4, seconds=100),
    }
    assert recommendations(slow) == []


def test_small_jobs_do_not_make_an_engine_look_quick() -> None:
    small, large = replace(NOTES, size="small"), replace(NOTES, size="large")
    known = {
        a_cell("claude", task=small): tries(150, seconds=100, usd=0.1),
        a_cell("claude", task=large): tries(50, seconds=1000, usd=1),
        a_cell("codex", task=small): tries(50, seconds=100, usd=0.1),
        a_cell("codex", task=large): tries(150, seconds=1000, usd=1),
    }
    assert recommendations(known) == []


def test_recommendations_are_filtered_by_product_and_sorted_best_first() -> None:
    other = TaskFeatures("shop", None, None)
    known = {
        a_cell("claude"): tries(80, share=0.9),
        a_cell("codex"): tries(80, share=0.6),
        a_cell("claude", task=other): tries(80, share=0.2),
        a_cell("codex", task=other): tries(80, share=0.9),
    }
    assert [each.product for each in recommendations(known)] == ["shop", "notes"]
    (mine,) = recommendations(known, "notes")
    assert mine.choice == RoutingChoice("claude")
    (theirs,) = recommendations(known, "shop")
    assert theirs.sentence.startswith("no repo: codex passes at once")
