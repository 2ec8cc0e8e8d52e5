"""Profiles: files, the shipped catalogue, and rejected settings."""

import msgspec
import pytest

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.capability import Requirement
from gigafactory.domain.manifest.manifest import ReviewPolicy
from gigafactory.domain.manifest.profile import (
    Profile,
    parse_profile_file,
    parse_profile_json,
    unknown_profile,
)
from gigafactory.profiles import shipped

FILE = """\
---
name: backend
capabilities: [node>=20, has:pnpm]
default-verify: pnpm -s test
default-setup: auto
engine-class: agentic-coder
prefers-engine: [devin, claude]
model: large
allowed-scope: [src/**]
review-policy: manual
ship: pr
ship-policy: manual
merge-style: ff
wait-merge: true
verify-rounds: 3
stall: 5m
sandbox: workspace
scope-enforcement: warn
x-owner: platform
---

You are careful.
"""


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(Invalid) as refused:
        parse_profile_file(text)
    return refused.value.faults


def test_profile_persona_is_the_body_of_its_file() -> None:
    profile = parse_profile_file(FILE)
    assert profile.persona == "You are careful."
    assert profile.default_verify == "pnpm -s test"
    assert profile.review_policy == ReviewPolicy("manual")
    assert profile.scope_enforcement == "warn"
    assert profile.extra == {"x-owner": "platform"}
    assert (profile.version, profile.product_id) == (1, None)
    assert msgspec.json.decode(msgspec.json.encode(profile), type=Profile) == profile


def test_persona_can_be_in_the_frontmatter() -> None:
    profile = parse_profile_file("---\nname: a\npersona: |\n  You are.\n  Two lines.\n---\n")
    assert profile == Profile(name="a", persona="You are.\nTwo lines.")
    assert profile.scope_enforcement == "deny"


def test_profile_can_be_json() -> None:
    given_json = {"name": "a", "persona": "You.", "defaultVerify": "make"}
    assert parse_profile_json(given_json) == Profile(
        name="a", persona="You.", default_verify="make"
    )
    with pytest.raises(Invalid, match="default-verify"):
        parse_profile_json({"name": "a", "default-verify": "make"})


def test_invalid_profile_reports_every_fault() -> None:
    unknown, unnamed = faults_of("---\nverify: make\n---\nx")
    assert "did you mean" in unknown.message
    assert unnamed.message == "found nothing; expected the profile's name"
    (twice,) = faults_of("---\nname: a\npersona: You.\n---\nYou too.")
    assert (twice.field, twice.line) == ("persona", 3)
    (long,) = faults_of("---\nname: a\n---\n" + "x" * 65_537)
    assert "expected at most 65536" in long.message
    (slug,) = faults_of("---\nname: A\n---\n")
    assert slug.field == "name"


def test_unknown_profile_error_lists_the_known_ones() -> None:
    assert "unknown; expected one of a, b" in str(unknown_profile("c", ["b", "a"]))
    assert "none yet" in str(unknown_profile("c", []))


def test_shipped_catalogue_is_complete() -> None:
    assert list(shipped()) == [
        "backend-engineer",
        "developer",
        "docs-writer",
        "frontend-engineer",
        "planner",
        "qa",
        "reviewer",
        "ui-designer",
        "ux-designer",
    ]


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_profile_has_a_full_persona_and_valid_capabilities(name: str) -> None:
    profile = shipped()[name]
    assert profile.persona.startswith("You are a senior")
    assert 15 <= len(profile.persona.splitlines()) <= 40
    assert all(Requirement.parse(token) for token in profile.capabilities)


@pytest.mark.parametrize("given", [{}, {"name": None}])
def test_a_profile_without_a_name_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        parse_profile_json(given)
    assert [fault.field for fault in refused.value.faults] == ["name"]
