"""Versions and flags, parsed from the output of real tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.manifest.capability import AdvertisedCapability
from gigafactory.factory.machine import tools

HELP = """\
Usage: agent [options]

Options:
  -p, --print              Print the answer and exit
  --output-format <kind>   \x1b[1mtext\x1b[0m, json or stream-json
  --json-schema=FILE
  [--resume ID]
"""


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("git version 2.39.5\n", "2.39.5"),
        ("git version 2.39.3 (Apple Git-146)", "2.39.3"),
        ("v20.20.2\n", "20.20.2"),
        ("Python 3.11.7\n", "3.11.7"),
        ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
        ("rustc 1.79.0-nightly (0e682e987 2024-03-20)", "1.79.0"),
        ("GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu\n", "4.3"),
        ("gcc (Debian 12.2.0-14+deb12u1) 12.3.0\nCopyright (C) 2022", "12.3.0"),
        ("Apple clang version 15.0.0 (clang-1500.1.0.2.5)", "15.0.0"),
        ("Poetry (version 1.7.1)", "1.7.1"),
        ("jq-1.6", "1.6"),
        ("Xcode 15.2\nBuild version 15C500b\n", "15.2"),
        ("2.1.197 (Claude Code)", "2.1.197"),
        ("codex-cli 0.166.0", "0.166.0"),
        ("\x1b[1maider\x1b[0m 0.86.2", "0.86.2"),
        ("0.0.1790142911-gabc1234", "0.0.1790142911"),
        ("21\n", "21"),
    ],
)
def test_tool_version_is_parsed_from_its_output(printed: str, expected: str) -> None:
    assert tools.parse_version(printed) == expected


@pytest.mark.parametrize("printed", ["", "\0\xff", "usage: tool [-h]", "python3.11 not found"])
def test_output_without_a_version_gives_no_version(printed: str) -> None:
    assert tools.parse_version(printed) is None
    assert tools.parse_java_version(printed) is None
    assert tools.parse_go_version(printed) is None


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', "17.0.15"),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', "8.0.392"),
        ("openjdk 21 2023-09-19\n", "21"),
        ('openjdk version "23-ea" 2024-09-17', "23"),
    ],
)
def test_java_version_is_parsed_in_its_common_form(printed: str, expected: str) -> None:
    assert tools.parse_java_version(printed) == expected


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("go version go1.22.1 linux/amd64", "1.22.1"),
        ("go version go1.22rc1 darwin/arm64", "1.22"),
        ("go version devel go1.23-6e6af2e", "1.23"),
    ],
)
def test_go_version_is_parsed_after_its_name(printed: str, expected: str) -> None:
    assert tools.parse_go_version(printed) == expected


@given(st.text(max_size=400))
def test_any_parsed_version_can_be_advertised(printed: str) -> None:
    for found in (
        tools.parse_version(printed),
        tools.parse_java_version(printed),
        tools.parse_go_version(printed),
    ):
        assert found is None or AdvertisedCapability.parse(f"tool:{found}").value == found


def test_flags_are_matched_as_whole_words() -> None:
    assert tools.missing_flags(HELP, ["-p", "--print", "--output-format", "--resume"]) == ()
    assert tools.missing_flags(HELP, ["--json", "--out", "-f", "--json-schema"]) == (
        "--json",
        "--out",
        "-f",
    )
