"""Capability tokens: grammar, matching and hints."""

from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gigafactory.domain.errors import Invalid
from gigafactory.domain.manifest.capability import (
    AdvertisedCapability,
    Requirement,
    meets,
    missing_requirements,
    parse_advertised,
    similar_tokens,
)

MAC = frozenset({"os:mac", "node:20.11.1", "python:3.9.1", "python:3.12.0", "gpu", "has:xcode"})


@pytest.mark.parametrize(
    ("token", "met"),
    [
        ("os:mac", True),
        ("os:linux", False),
        ("os:any", True),
        ("gpu", True),
        ("has:xcode", True),
        ("has:figma", False),
        ("node", True),
        ("java", False),
        ("node>=20", True),
        ("node>=20.11.1", True),
        ("node>=20.11.2", False),
        ("node>20", True),
        ("node>20.11.1", False),
        ("node<=20", False),
        ("node<=21", True),
        ("node<20.12", True),
        ("node<20", False),
        ("node=20", True),
        ("node=20.11", True),
        ("node=20.12", False),
        ("node=20.11.1.0", True),
        ("node:20", False),
        ("python>=3.11", True),
        ("python<3.10", True),
        ("python=3.10", False),
        ("java>=17", False),
        ("gpu>=1", False),
        ("os>=1", False),
    ],
)
def test_requirement_is_met_by_matching_capabilities(token: str, *, met: bool) -> None:
    assert meets(token, MAC) is met
    assert meets(Requirement.parse(token), MAC) is met


def test_tool_version_is_parsed_from_its_leading_numbers() -> None:
    assert meets("go>=1.22", frozenset({"go:1.22rc1"}))
    assert meets("node>=20", frozenset({"node:v20.1.0"}))
    assert not meets("node>=20", frozenset({"node:nightly"}))


def test_missing_requirements_are_listed_in_requested_order() -> None:
    assert missing_requirements(("has:figma", "gpu", "node>=22"), MAC) == ("has:figma", "node>=22")
    assert missing_requirements((), frozenset()) == ()


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "is no capability"),
        ("Node>=20", "is no capability"),
        ("a b", "is no capability"),
        (">=20", "is no capability"),
        ("node>=twenty", "'twenty', which is no version"),
        ("node>=", "'', which is no version"),
        ("node==20", "'=20', which is no version"),
        ("node=>20", "'>20', which is no version"),
        ("has:", "no usable value"),
        ("has:a b", "no usable value"),
        ("x" * 201, "at most 200 characters, not 201"),
        ("node>=1.2\n", "no version"),
    ],
)
def test_malformed_requirement_is_rejected_with_its_fault(token: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Requirement.parse(token)


def test_advertised_capability_has_a_value_and_no_comparison() -> None:
    assert AdvertisedCapability.parse("node:20.11.1") == AdvertisedCapability(
        "node:20.11.1", "node", "20.11.1"
    )
    assert AdvertisedCapability.parse("gpu").value == ""
    with pytest.raises(ValueError, match="such as node:20"):
        AdvertisedCapability.parse("node>=20")


def test_invalid_advertisement_reports_all_faults() -> None:
    assert parse_advertised(["gpu", "os:mac", "gpu"]) == {"gpu", "os:mac"}
    with pytest.raises(Invalid) as refused:
        parse_advertised(["gpu", "node>=20", "A"])
    assert [fault.field for fault in refused.value.faults] == ["capabilities[1]", "capabilities[2]"]


def test_similar_tokens_share_the_key_or_are_spelled_alike() -> None:
    known = {"has:figma", "has:xcode", "node:20.11.1", "os:mac"}
    assert similar_tokens("node>=22", known) == ("node:20.11.1",)
    assert similar_tokens("has:figmma", known)[0] == "has:figma"
    assert similar_tokens("nodejs>=20", {"node:20", "os:mac"}) == ("node:20",)
    assert similar_tokens("zzz", known) == ()
    assert len(similar_tokens("has:x", {f"has:x{i}" for i in range(9)}, limit=2)) == 2


versions = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple)


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@settings(deadline=None)
@given(versions, versions)
def test_versions_are_compared_number_by_number(
    found: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    have = frozenset({f"tool:{dotted(found)}"})
    pad = 4
    left, right = (version + (0,) * (pad - len(version)) for version in (found, wanted))
    assert meets(f"tool>={dotted(wanted)}", have) is (left >= right)
    assert meets(f"tool>{dotted(wanted)}", have) is (left > right)
    assert meets(f"tool<={dotted(wanted)}", have) is (left <= right)
    assert meets(f"tool<{dotted(wanted)}", have) is (left < right)
    assert meets(f"tool={dotted(wanted)}", have) is (left[: len(wanted)] == wanted)


@settings(deadline=None)
@given(st.text(max_size=20), st.frozensets(st.text(max_size=10), max_size=4))
def test_any_token_is_judged_or_rejected_with_a_reason(token: str, tokens: frozenset[str]) -> None:
    try:
        verdict = meets(token, tokens)
    except ValueError as wrong:
        assert str(wrong)  # noqa: PT017 - either way of ending is right
    else:
        assert verdict is (missing_requirements((token,), tokens) == ())


def test_similar_tokens_are_found_in_linear_time() -> None:
    hostile = "x:" + "a" * 180 + "b"
    known = [f"x:{'a' * (100 + number % 90)}{number:03}" for number in range(2000)]
    before = thread_time()
    assert len(similar_tokens(hostile, known)) == 3
    assert thread_time() - before < 0.1
