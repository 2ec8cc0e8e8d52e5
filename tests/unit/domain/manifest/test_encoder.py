"""Manifests as JSON: composites, faults and round trips."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.encoder import format_job_file, manifest_to_json
from gigafactory.domain.manifest.job_file import (
    parse_job_file,
    parse_json,
    parse_json_job,
    parse_snapshot,
)
from gigafactory.domain.manifest.manifest import (
    Child,
    JobBudget,
    JobFile,
    Manifest,
    Retry,
    ReviewPolicy,
    ScopeEnforcement,
)


def faults_of(obj: dict[str, object]) -> tuple[Fault, ...]:
    with pytest.raises(Invalid) as refused:
        parse_json(obj)
    return refused.value.faults


def deep(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def test_json_keys_are_camel_case() -> None:
    given_json = {
        "engineClass": "chat-coder",
        "timeout": 90,
        "stall": "15m",
        "verifyRounds": 2,
        "yolo": True,
        "lock": None,
        "budget": {"usd": 0.25, "tokens": "500k"},
        "reviewPolicy": {"reviewers": ["@a"]},
        "deps": ["a", "b"],
        "x-a": [1, 2.5, "x", None, False, {"b": 1e300}],
    }
    assert parse_json(given_json) == Manifest(
        engine_class="chat-coder",
        timeout=timedelta(seconds=90),
        stall=timedelta(minutes=15),
        verify_rounds=2,
        yolo=True,
        budget=JobBudget(250_000_000, 500_000),
        review_policy=ReviewPolicy("reviewers", ("a",)),
        deps=("a", "b"),
        extra={"x-a": [1, 2.5, "x", None, False, {"b": 1e300}]},
    )


@pytest.mark.parametrize(
    ("obj", "field", "why"),
    [
        ({"review-policy": "auto"}, "review-policy", "did you mean 'reviewPolicy'?"),
        ({"lock": 5}, "lock", "found '5'; expected text"),
        ({"lock": True}, "lock", "found 'true'; expected text"),
        ({"yolo": "true"}, "yolo", "expected true or false"),
        ({"yolo": 1}, "yolo", "expected true or false"),
        ({"verifyRounds": "2"}, "verifyRounds", "a whole number"),
        ({"verifyRounds": True}, "verifyRounds", "a whole number"),
        ({"budget": {"usd": float("nan")}}, "budget", "the number nan; expected a finite one"),
        ({"budget": {"usd": float("-inf")}}, "budget", "a finite one"),
        ({"budget": {"usd": True}}, "budget.usd", "found 'true'; expected a quantity"),
        ({"phase": 10**400}, "phase", "beyond 64 bits"),
        ({"lock": "a\x00"}, "lock", "a NUL character"),
        ({"lock": "\ud800"}, "lock", "a lone surrogate"),
        ({"a\x00": 1}, r"a\x00", "a NUL character"),
        ({"x-a": {1: 2}}, "x-a", "the key 1; expected text"),
        ({"x-a": b"bytes"}, "x-a", "a bytes; expected JSON"),
        ({"x-a": deep(40)}, "x-a", "nested deeper than 32"),
        ({"x-a": "x" * 70_000}, "", "bytes in x- keys"),
        ({"deps": [None]}, "deps[0]", "found nothing"),
        ({"name": "x" * 10_000}, "name", "xxx…'; expected"),
    ],
)
def test_fault_in_json_names_its_field(obj: dict[str, object], field: str, why: str) -> None:
    (fault,) = faults_of(obj)
    assert (fault.field, fault.line) == (field, None)
    assert why in fault.message


def test_json_job_is_a_manifest_and_a_body() -> None:
    given_json = {"manifest": {"lock": "a"}, "body": "# Title\n"}
    assert parse_json_job(given_json) == JobFile(Manifest(lock="a", title="Title"), "# Title\n")
    assert parse_json_job({"body": "x"}).manifest == Manifest(title="x")


def test_invalid_json_job_reports_every_fault() -> None:
    with pytest.raises(Invalid) as refused:
        parse_json_job({"manifest": 5, "body": None, "name": "x"})
    assert {fault.field for fault in refused.value.faults} == {"manifest", "body", "name"}
    with pytest.raises(Invalid, match="expected at most 1048576"):
        parse_json_job({"body": "é" * 600_000})
    with pytest.raises(Invalid, match="NUL"):
        parse_json_job({"body": "\x00"})


COMPOSITE = """\
---
kind: composite
children:
  - name: one
    body: |
      # Do one
  - name: two
    deps: [one]
    kind: composite
    children: [{body: deeper}]
---
"""


def test_composite_job_file_contains_its_children() -> None:
    one, two = parse_job_file(COMPOSITE).manifest.children
    assert one == Child(Manifest(name="one", title="Do one"), "# Do one\n")
    assert two.manifest.deps == ("one",)
    assert two.manifest.children == (Child(Manifest(title="deeper"), "deeper"),)


@pytest.mark.parametrize(
    ("children", "field", "why"),
    [
        ([5], "children[0]", "a manifest with a body"),
        ([{"body": 5}], "children[0].body", "the instructions as text"),
        ([{"body": "x" * 1_048_577}], "children[0].body", "expected at most 1048576"),
        ([{"timeout": "q"}], "children[0].timeout", "a duration such as"),
        ([{"nam": "q"}], "children[0].nam", "did you mean 'name'?"),
        ([{"children": [{}]}], "children[0].children", "expected `kind: composite`"),
        ([{"engine": "pi", "command": "x"}], "children[0].command", "expected `engine: command`"),
        ([{}] * 10_001, "children", "at most 10000 children in all"),
        (
            [{"kind": "composite", "children": [{}] * 5_000}, {"children": [{}] * 5_000}],
            "children",
            "at most 10000 children in all",
        ),
        ([{"children": "x"}], "children[0].children", "a list of manifests"),
    ],
)
def test_fault_in_a_child_names_the_child(children: object, field: str, why: str) -> None:
    (fault,) = faults_of({"kind": "composite", "children": children})
    assert fault.field == field
    assert why in fault.message


def test_leaf_with_children_and_command_with_another_engine_are_rejected() -> None:
    leaf, command = faults_of({"children": [{}], "command": "x", "engine": "pi"})
    assert leaf.message == "found children in a leaf; expected `kind: composite` beside them"
    assert "for the engine 'pi'" in command.message
    assert parse_json({"command": "x"}).command == "x"


durations = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=300))
some_durations = durations.filter(bool)
slugs = st.text("abcxyz019-_", max_size=10).map("a{}".format)
printable = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])
lines = st.text(printable, max_size=20).map(lambda text: text.strip() or "no")
optional_lines = st.none() | lines
storable = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
bodies = st.text(storable, max_size=40)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(storable, max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(slugs, inner, min_size=0, max_size=3)
    ),
    max_leaves=5,
)
leaves = st.builds(
    Manifest,
    name=st.none() | slugs,
    title=lines,
    lock=optional_lines,
    verify=optional_lines,
    capabilities=st.lists(slugs, max_size=3, unique=True).map(tuple),
    timeout=st.none() | some_durations,
    stall=st.none() | durations,
    budget=st.none()
    | st.builds(
        JobBudget,
        st.none() | st.integers(0, 10**18),
        st.none() | st.integers(0, 10**15),
        st.none() | some_durations,
    ),
    retry=st.none()
    | st.builds(
        Retry,
        st.integers(0, 100),
        st.none() | durations,
        st.sampled_from([(), ("timeout",), ("crash", "timeout")]),
    ),
    review_policy=st.sampled_from(
        [
            None,
            ReviewPolicy("auto"),
            ReviewPolicy("manual"),
            ReviewPolicy("reviewers", ("a", "b"), 2),
        ]
    ),
    yolo=st.none() | st.booleans(),
    phase=st.none() | st.integers(0, 10_000),
    delay=st.none() | durations,
    extra=st.dictionaries(slugs.map("x-{}".format), json_values, max_size=2),
)
manifests = leaves | st.builds(
    Manifest,
    kind=st.just("composite"),
    title=lines,
    children=st.lists(st.builds(Child, leaves, bodies), min_size=1, max_size=2).map(tuple),
    not_before=st.none()
    | st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - zone below
        lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000, tzinfo=UTC)
    ),
)


@settings(deadline=None)
@given(manifests)
def test_manifest_round_trips_through_json(manifest: Manifest) -> None:
    written = msgspec.json.decode(msgspec.json.encode(manifest_to_json(manifest)))
    assert parse_json(written) == manifest


@settings(deadline=None)
@given(manifests, st.none() | st.just("Go slowly."), st.sampled_from([None, "warn", "deny"]))
def test_snapshot_round_trips_with_persona_and_scope_enforcement(
    manifest: Manifest, persona: str | None, enforcement: ScopeEnforcement | None
) -> None:
    resolved = replace(manifest, persona=persona, scope_enforcement=enforcement)
    written = msgspec.json.decode(msgspec.json.encode(manifest_to_json(resolved)))
    assert parse_snapshot(written) == resolved


def test_malformed_snapshot_is_rejected() -> None:
    with pytest.raises(Invalid, match="persona: expected text"):
        parse_snapshot({"persona": 5})


@settings(deadline=None)
@given(manifests, bodies)
def test_manifest_round_trips_through_a_job_file(manifest: Manifest, body: str) -> None:
    assert parse_job_file(format_job_file(manifest, body)) == JobFile(manifest, body)


@settings(deadline=None)
@given(manifests)
def test_manifest_round_trips_through_storage(manifest: Manifest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest) == manifest


def test_job_without_fields_is_written_as_its_body() -> None:
    assert format_job_file(Manifest(), "x") == "x"
    assert format_job_file(Manifest(), "---\nx\n---\n") == "---\n---\n---\nx\n---\n"
    assert parse_job_file(format_job_file(Manifest(), "---\nx\n---\n")).body == "---\nx\n---\n"
