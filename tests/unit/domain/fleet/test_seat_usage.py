"""Recent seat time: running jobs count most, old ones hardly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.fleet.seat_usage import BEGUN_S, HALF_LIFE_S, REBASE_AFTER, SeatUsage
from tests.support.builders import NOON, after


def test_product_that_never_ran_has_no_usage() -> None:
    assert SeatUsage().used("notes", NOON) == 0.0


def test_run_counts_a_minimum_at_once_and_then_by_the_second() -> None:
    time = SeatUsage()
    time.start("notes", NOON)
    assert time.used("notes", NOON) == BEGUN_S
    assert time.used("notes", after(10)) == pytest.approx(BEGUN_S + 10, rel=0.01)


def test_seat_usage_halves_with_every_half_life() -> None:
    time = SeatUsage()
    time.start("notes", NOON)
    time.end("notes", after(60))
    used = time.used("notes", after(60))
    assert used == pytest.approx(60, rel=0.02)
    assert time.used("notes", after(60 + HALF_LIFE_S)) == pytest.approx(used / 2, rel=0.01)


def test_run_that_ends_at_its_start_counts_nothing() -> None:
    time = SeatUsage()
    time.start("notes", NOON)
    time.end("notes", NOON)
    assert time.used("notes", NOON) == 0.0


def test_seat_usage_is_kept_per_product() -> None:
    time = SeatUsage()
    time.start("notes", NOON)
    time.start("notes", NOON)
    time.end("notes", after(60))
    time.start("shop", after(60))
    assert time.used("notes", after(60)) > time.used("shop", after(60)) > 0.0


def test_seat_usage_stays_finite_over_long_histories() -> None:
    time = SeatUsage()
    time.start("notes", NOON)
    time.end("notes", after(60))
    much_later = after(HALF_LIFE_S * REBASE_AFTER * 50)
    time.start("shop", much_later)
    assert time.used("notes", much_later) == 0.0
    assert time.used("shop", much_later) == BEGUN_S
    assert time.used("shop", NOON) == 0.0 or math.isfinite(time.used("shop", NOON))


runs = st.tuples(st.integers(0, 7200), st.integers(0, 7200)).map(sorted)


@given(st.lists(runs, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_order_of_booking_does_not_change_the_usage(spans: list[list[int]], random: object) -> None:
    one, other = SeatUsage(), SeatUsage()
    shuffled = list(spans)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for committer, order in ((one, spans), (other, shuffled)):
        for begun, _ in order:
            committer.start("notes", after(begun))
        for _, ended in order:
            committer.end("notes", after(ended))
    now = after(7200)
    assert one.used("notes", now) == pytest.approx(other.used("notes", now), abs=0.001)
    longest = sum(ended - begun for begun, ended in spans)
    assert 0.0 <= one.used("notes", now) <= longest + 0.001
