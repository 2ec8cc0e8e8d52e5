"""The machine itself, by the words that tokens use."""

import pytest

from gigafactory.factory.machine.detect import Detected, architecture, system
from gigafactory.factory.machine.engines import Found


@pytest.mark.parametrize(
    ("name", "expected"), [("linux", "linux"), ("darwin", "mac"), ("win32", "windows")]
)
def test_a_system_has_one_name(name: str, expected: str) -> None:
    assert system(name) == expected


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("x86_64", "x86_64"),
        ("AMD64", "x86_64"),
        ("arm64", "arm64"),
        ("aarch64", "arm64"),
        ("riscv64", "riscv64"),
        ("", "unknown"),
    ],
)
def test_a_processor_has_one_name_on_every_system(machine: str, expected: str) -> None:
    assert architecture(machine) == expected


def test_an_engine_with_a_problem_is_no_token() -> None:
    detected = Detected(
        os="mac",
        capabilities=("os:mac",),
        repos=("notes",),
        engines={"claude": Found(), "codex": Found(problem="it changed")},
    )
    assert detected.tokens == {"os:mac", "repo:notes", "engine:claude"}
