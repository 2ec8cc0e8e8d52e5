"""Durations, counts and money: accepted and rejected values, without loss of precision."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.manifest.units import (
    DURATION_MAX,
    format_duration,
    format_usd,
    metered_usd,
    parse_count,
    parse_duration,
    parse_usd,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("45m", 2700),
        ("4h", 14_400),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("90", 90),
        ("0", 0),
        ("1.5h", 5400),
        (" 5m ", 300),
        ("0.25", 0.25),
    ],
)
def test_duration_is_parsed_from_common_notations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "  ", "1:30", "-5", "5 m", "30m1h", "5x", "nan", "1e3", "٣s", "h", "5min", "5M"]
)
def test_invalid_duration_is_rejected_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as 90s, 45m"):
        parse_duration(text)


def test_absurd_duration_is_rejected_with_the_limit() -> None:
    with pytest.raises(ValueError, match="at most 3650d"):
        parse_duration("999999999999999999d")


@settings(deadline=None)
@given(st.timedeltas(min_value=timedelta(0), max_value=DURATION_MAX))
def test_formatted_duration_parses_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


def test_duration_is_formatted_briefly() -> None:
    assert format_duration(timedelta(hours=1, minutes=30)) == "1h30m"
    assert format_duration(timedelta(0)) == "0s"
    assert format_duration(timedelta(milliseconds=90_500)) == "1m30.5s"


@pytest.mark.parametrize(
    ("text", "count"),
    [("500k", 500_000), ("2M", 2_000_000), ("1.5k", 1500), ("7", 7), ("1G", 10**9)],
)
def test_count_is_parsed_from_common_notations(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("many", "a count such as"),
        ("-1", "a count such as"),
        ("2m", "a count such as"),
        ("1.5", "a whole number"),
        ("999999999G", "at most"),
    ],
)
def test_invalid_count_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_count(text)


def test_dollar_amounts_are_parsed_exactly() -> None:
    assert parse_usd("0.1") + parse_usd("0.2") == parse_usd("0.3") == 300_000_000
    assert parse_usd("0.000000001") == 1
    assert parse_usd("1e-05") == 10_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("NaN", "neither negative nor infinite"),
        ("sNaN", "neither negative nor infinite"),
        ("Infinity", "neither negative nor infinite"),
        ("-1", "neither negative nor infinite"),
        ("five", "a sum in dollars"),
        ("", "a sum in dollars"),
        ("1_000", "a sum in dollars"),
        ("1" * 41, "a sum in dollars"),
        ("1e999999", "at most"),
        ("1e-999999", "a sum in dollars"),
        ("0.0000000001", "at most nine decimals"),
    ],
)
def test_invalid_sum_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_usd(text)


def test_metered_cost_is_rounded_up_to_a_nano_dollar() -> None:
    assert metered_usd(0.1 + 0.2) == 300_000_001
    assert metered_usd(5) == 5 * 10**9
    with pytest.raises(ValueError, match="neither negative nor infinite"):
        metered_usd(float("nan"))


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**18))
def test_formatted_sum_parses_back(nanos: int) -> None:
    assert parse_usd(format_usd(nanos)) == nanos
    assert Decimal(format_usd(-nanos)) == -Decimal(nanos) / 10**9


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_parses_as_a_quantity_or_raises_value_error(text: str) -> None:
    for parse in (parse_duration, parse_count, parse_usd, metered_usd):
        try:
            parse(text)
        except ValueError as wrong:
            assert str(wrong)  # noqa: PT017 - either way of ending is right
