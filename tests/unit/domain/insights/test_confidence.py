"""Wilson intervals: they contain the true rate, even with few attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.insights.confidence import wilson_interval


def test_no_tries_give_no_interval() -> None:
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(
    ("passes", "tries", "low", "high"),
    # From published tables of Wilson intervals, to three decimal places.
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (720, 1000, 0.691, 0.747)],
)
def test_interval_matches_published_wilson_tables(
    passes: int, tries: int, low: float, high: float
) -> None:
    found = wilson_interval(passes, tries)
    assert found is not None
    assert (round(found.low, 3), round(found.high, 3)) == (low, high)
    assert found.share == passes / tries


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_share_lies_within_its_interval_and_interval_within_zero_and_one(
    drawn: tuple[int, int],
) -> None:
    found = wilson_interval(*drawn)
    assert found is not None
    assert 0 <= found.low <= found.share + 1e-9
    assert found.share - 1e-9 <= found.high <= 1
