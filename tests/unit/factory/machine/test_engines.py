"""`--seats`: the number of concurrent runs of each engine on a machine."""

import pytest

from gigafactory.domain.errors import Invalid
from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.factory.machine.engines import DetectedEngine, parse_seats

KNOWN = ("claude", "codex", "command")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("claude=2,codex=1", {"claude": 2, "codex": 1}),
        (" claude = 2 , ", {"claude": 2}),
        ("codex=0", {"codex": 0}),
        ("", {}),
    ],
)
def test_seats_are_parsed_by_engine(written: str, expected: dict[str, int]) -> None:
    assert parse_seats(written, KNOWN) == expected


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("claude", "expected an engine and its seats, such as claude=2"),
        ("=2", "expected an engine and its seats"),
        ("claud=2", "there is no engine 'claud'; did you mean claude?"),
        ("zzz=2", "known are claude, codex, command"),
        ("claude=two", "expected a whole number of seats from 0 to 1000"),
        ("claude=-1", "expected a whole number"),
        ("claude=1001", "expected a whole number"),
        ("claude=", "expected a whole number"),
        ("claude=1,claude=2", "claude is given twice"),
    ],
)
def test_invalid_seats_name_the_expected_form(written: str, sentence: str) -> None:
    with pytest.raises(Invalid, match="--seats is not valid") as refused:
        parse_seats(written, KNOWN)
    assert sentence in str(refused.value)


def test_all_faults_of_the_seats_are_reported_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        parse_seats("claude=x,codex=1,nobody=1", KNOWN)
    assert len(refused.value.faults) == 2


def test_engine_with_a_problem_is_advertised_as_unavailable() -> None:
    found = DetectedEngine(program="/bin/claude", version="2.1.0", seats=2, problem="it changed")
    assert found.to_engine_seats == EngineSeats(version="2.1.0", seats=2, unavailable="it changed")
