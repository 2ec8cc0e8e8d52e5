"""The machine itself, by the words that tokens use."""

import pytest

from gigafactory.factory.machine.detect import DetectedMachine, arch_name, os_name
from gigafactory.factory.machine.engines import DetectedEngine


@pytest.mark.parametrize(
    ("name", "expected"), [("linux", "linux"), ("darwin", "mac"), ("win32", "windows")]
)
def test_a_system_has_one_name(name: str, expected: str) -> None:
    assert os_name(name) == expected


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
    assert arch_name(machine) == expected


def test_an_engine_with_a_problem_is_no_token() -> None:
    detected = DetectedMachine(
        os="mac",
        capabilities=("os:mac",),
        repos=("notes",),
        engines={"claude": DetectedEngine(), "codex": DetectedEngine(problem="it changed")},
    )
    assert detected.tokens == {"os:mac", "repo:notes", "engine:claude"}
