"""What few tries say: ranges that hold the truth, and advice only where nobody can doubt it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.insights import NONE, Rollup
from gigafactory.domain.odds import TRIES_MIN, advice, odds


def an_engine(name: str, passes: int, tries: int) -> Rollup:
    return Rollup(group=name, first_passes=passes, first_tries=tries)


def test_no_try_says_nothing() -> None:
    assert odds(0, 0) is None


@pytest.mark.parametrize(
    ("passes", "tries", "low", "high"),
    # After the tables of the method itself, to three places.
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (720, 1000, 0.691, 0.747)],
)
def test_the_range_is_that_of_wilson(passes: int, tries: int, low: float, high: float) -> None:
    found = odds(passes, tries)
    assert found is not None
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)
    assert found.share == passes / tries


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_within_its_range_and_that_within_one(drawn: tuple[int, int]) -> None:
    found = odds(*drawn)
    assert found is not None
    assert 0 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1


def test_one_engine_alone_is_ahead_of_nobody() -> None:
    few = an_engine("codex", TRIES_MIN - 1, TRIES_MIN - 1)
    told = advice([an_engine("claude", 40, 40), few, an_engine(NONE, 0, 90)])
    assert told.engine is None
    assert "not enough runs" in told.told


def test_engines_that_are_close_are_not_told_apart() -> None:
    told = advice([an_engine("claude", 30, 40), an_engine("codex", 28, 40)])
    assert (told.engine, told.told) == (None, "claude and codex are too close to tell apart")


def test_an_engine_that_is_clearly_ahead_of_all_is_named() -> None:
    told = advice(
        [an_engine("codex", 10, 100), an_engine("claude", 95, 100), an_engine("pi", 30, 100)]
    )
    assert told.engine == "claude"
    assert "than every other engine" in told.told


def test_the_third_may_be_less_sure_than_the_second_and_still_too_close() -> None:
    sure, unsure = an_engine("codex", 600, 1000), an_engine("pi", 11, TRIES_MIN)
    assert advice([an_engine("claude", 700, 1000), sure]).engine == "claude"
    assert advice([an_engine("claude", 700, 1000), sure, unsure]).engine is None
