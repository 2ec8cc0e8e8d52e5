"""Recommendations: only what is clearly better, in words with the evidence."""

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
    """Tries that scatter as those of people's jobs do."""
    whole = NO_OBSERVATION
    for number in range(count):
        passed = int(number < share * count)
        lasted = seconds * math.exp(rng.gauss(0.0, 0.3))
        cost = None if usd is None else usd * math.exp(rng.gauss(0.0, 0.3))
        whole = add_observations(whole, an_observation(1, passed, seconds=lasted, usd=cost))
    return whole


def told(known: dict[Cell, Observation], product: str | None = None) -> list[Recommendation]:
    return find_recommendations(known.items(), product)


def test_what_is_quicker_and_cheaper_is_told_with_its_intervals() -> None:
    designer = TaskFeatures("notes", "notes", "ux-designer")
    known = {
        Cell(designer, RoutingChoice("claude", "mac-2")): tries(64, seconds=400, usd=0.4),
        Cell(designer, RoutingChoice("claude", "mac-1")): tries(60),
        Cell(designer, RoutingChoice("codex", "mac-1")): tries(60),
    }
    (best,) = told(known)
    assert best.choice == RoutingChoice("claude", "mac-2")
    assert (best.tries, best.others) == (64, 120)
    assert best.sentence.startswith("repo notes, profile ux-designer: claude on mac-2 ships ")
    assert "% faster (" in best.sentence
    assert best.sentence.endswith("% cheaper (" + best.sentence.split("% cheaper (")[1])
    assert "than the present mix (n = 64, 95 % intervals)" in best.sentence


def test_one_thing_is_told_with_its_interval_at_the_end() -> None:
    known = {
        a_cell("claude"): tries(100, share=0.9, usd=None),
        a_cell("codex"): tries(100, share=0.5, usd=None),
    }
    (best,) = told(known)
    assert best.cost is None
    assert best.success.low > 0.0
    assert not best.time.sure
    assert best.sentence.startswith("repo notes, profile coder: claude passes at once ")
    assert "points more often than the present mix (n = 100, 95 % interval " in best.sentence


def test_little_data_and_small_differences_support_nothing() -> None:
    assert told({}) == []
    few = {a_cell("claude"): tries(19, share=1.0), a_cell("codex"): tries(90, share=0.1)}
    assert told(few) == []
    alone = {a_cell("claude"): tries(500, share=1.0)}
    assert told(alone) == []
    same = {a_cell("claude"): tries(60), a_cell("codex"): tries(60)}
    assert told(same) == []


def test_what_is_better_in_one_thing_and_worse_in_another_is_not_recommended() -> None:
    known = {
        a_cell("claude"): tries(100, share=0.9, usd=5.0),
        a_cell("codex"): tries(100, share=0.4, usd=0.1),
    }
    assert told(known) == []
    slow = {
        a_cell("claude"): tries(100, share=0.9, seconds=4000),
        a_cell("codex"): tries(100, share=0.4, seconds=100),
    }
    assert told(slow) == []


def test_small_jobs_do_not_make_an_engine_look_quick() -> None:
    small, large = replace(NOTES, size="small"), replace(NOTES, size="large")
    known = {
        a_cell("claude", task=small): tries(150, seconds=100, usd=0.1),
        a_cell("claude", task=large): tries(50, seconds=1000, usd=1),
        a_cell("codex", task=small): tries(50, seconds=100, usd=0.1),
        a_cell("codex", task=large): tries(150, seconds=1000, usd=1),
    }
    assert told(known) == []


def test_a_product_hears_of_its_own_jobs_alone_and_the_best_comes_first() -> None:
    other = TaskFeatures("shop", None, None)
    known = {
        a_cell("claude"): tries(80, share=0.9),
        a_cell("codex"): tries(80, share=0.6),
        a_cell("claude", task=other): tries(80, share=0.2),
        a_cell("codex", task=other): tries(80, share=0.9),
    }
    assert [each.product for each in told(known)] == ["shop", "notes"]
    (mine,) = told(known, "notes")
    assert mine.choice == RoutingChoice("claude")
    (theirs,) = told(known, "shop")
    assert theirs.sentence.startswith("no repo: codex passes at once")
