"""Durations as readable text."""

from datetime import timedelta

import pytest

from gigafactory.domain.elapsed import format_ago, format_elapsed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3659, "1 h"),
        (3700, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (200_000, "2 d"),
    ],
)
def test_a_duration_is_rounded_down(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text
    assert format_elapsed(timedelta(seconds=seconds)) == text
    assert format_ago(timedelta(seconds=seconds)) == f"{text} ago"
