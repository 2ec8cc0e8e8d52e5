"""Sizes, durations, ages and sums of money as text."""

from datetime import UTC, datetime, timedelta

import pytest

from gigafactory.system.formatting import (
    format_age,
    format_money,
    format_short_age,
    format_size,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (12_345, "12 kB"),
        (42_000_000, "42 MB"),
        (10**13, "10 TB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes_are_formatted(count: int, text: str) -> None:
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text", "short"),
    [
        (-5, "0 s", "0s"),
        (0.9, "0 s", "0s"),
        (59, "59 s", "59s"),
        (60, "1 min", "1m"),
        (3599, "59 min", "59m"),
        (3600, "1 h", "1h"),
        (3700, "1 h 1 min", "1h"),
        (86_399, "23 h 59 min", "23h"),
        (86_400 * 3 + 7200, "3 d", "3d"),
    ],
)
def test_durations_and_ages_are_formatted(seconds: float, text: str, short: str) -> None:
    later = NOON + timedelta(seconds=seconds)
    assert format_age(NOON, later) == text
    assert format_short_age(NOON, later) == short


def test_age_is_counted_until_now_by_default() -> None:
    assert format_age(datetime.now(UTC) - timedelta(hours=2, seconds=5)) == "2 h"


@pytest.mark.parametrize(
    ("nanos", "exact", "rounded"),
    [
        (0, "$0", "$0"),
        (250_000_000, "$0.25", "$0.25"),
        (1_234_567_891, "$1.234567891", "$1.2346"),
        (-5_000_000_000, "$-5", "$-5"),
    ],
)
def test_sums_of_money_are_formatted(nanos: int, exact: str, rounded: str) -> None:
    assert format_money(nanos) == exact
    assert format_money(nanos, rounded=True) == rounded
