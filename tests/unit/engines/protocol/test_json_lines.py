"""Untrusted JSON: a malformed value counts as absent."""

from datetime import UTC, datetime

import pytest

from gigafactory.domain.job.run import USAGE_MAX, Usage
from gigafactory.engines.protocol import usage_counter
from gigafactory.engines.protocol.json_lines import (
    count,
    flag,
    iso_time,
    nano_usd,
    parse_record,
    parse_records,
    record_at,
    records_at,
    text,
    unix_time,
)
from gigafactory.engines.protocol.tail import LINES_MAX, SPEECH_CHARS_MAX, MessageBuffer, Tail
from gigafactory.engines.protocol.usage_counter import SEEN_MAX, SeenIds


@pytest.mark.parametrize(
    "line", ["", "hello", "[1]", '{"a": 1', '{"a": NaN}', "{}}", "\udcff{", '{"a":' * 5000, "null"]
)
def test_line_that_is_not_an_object_is_no_record(line: str) -> None:
    assert parse_record(line) is None


def test_objects_are_found_among_other_lines() -> None:
    assert list(parse_records(b'{"a":1}\nchatter\n\xff{\n{"b":2}')) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (5, 5),
        (5.0, 5),
        (5.5, 0),
        (-5, 0),
        (True, 0),
        ("5", 0),
        (None, 0),
        (USAGE_MAX, USAGE_MAX),
        (USAGE_MAX + 1, 0),
        (1e300, 0),
        (float("nan"), 0),
        (float("inf"), 0),
    ],
)
def test_count_is_a_whole_number_within_usage_bounds(found: object, expected: int) -> None:
    assert count({"a": {"b": found}}, "a", "b") == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [(0.25, 250_000_000), (0, 0), (-1, None), ("1", None), (1e9, None), (float("nan"), None)],
)
def test_dollars_become_nano_dollars(found: object, expected: int | None) -> None:
    assert nano_usd({"a": found}, "a") == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1794771431, datetime(2026, 11, 15, 19, 37, 11, tzinfo=UTC)),
        (17947714310000, None),
        (3600, None),
        ("soon", None),
    ],
)
def test_unix_time_is_accepted_only_within_a_plausible_range(
    found: object, expected: datetime | None
) -> None:
    assert unix_time({"a": found}, "a") == expected


@pytest.mark.parametrize("found", ["", "yesterday", "2026-11-15T00:00:00", 5])
def test_iso_time_without_a_zone_is_absent(found: object) -> None:
    assert iso_time({"a": found}, "a") is None


def test_missing_path_reads_as_absent() -> None:
    found = {"a": 1, "list": [1, {"x": 2}], "yes": True}
    assert (text(found, "a", "b"), record_at(found, "a"), records_at(found, "a")) == ("", {}, [])
    assert records_at(found, "list") == [{"x": 2}]
    assert (flag(found, "yes"), flag(found, "a")) == (True, False)


def test_usage_sums_stay_within_bounds() -> None:
    much = Usage(tokens_in=USAGE_MAX, cost_nano_usd=5)
    assert usage_counter.add(much, much) == Usage(tokens_in=USAGE_MAX, cost_nano_usd=10)
    assert usage_counter.subtract(Usage(tokens_in=1), much) == Usage()
    assert usage_counter.subtract(much, None) == much


def test_seen_ids_are_remembered_within_bounds() -> None:
    seen = SeenIds()
    assert [seen.is_new(name) for name in ("a", "a", "", "")] == [True, False, True, True]
    for number in range(SEEN_MAX):
        seen.is_new(str(number))
    assert seen.is_new("one too many")
    assert seen.is_new("one too many")


def test_only_the_end_of_the_output_is_kept() -> None:
    tail, speech = Tail(), MessageBuffer()
    for number in range(100):
        tail.add(f"{number}\n")
        speech.add("x" * 1000)
    tail.add("  \n")
    assert str(tail).splitlines() == [str(number) for number in range(100 - LINES_MAX, 100)]
    assert len(str(speech)) == SPEECH_CHARS_MAX
