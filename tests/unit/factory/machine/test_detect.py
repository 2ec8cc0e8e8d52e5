"""Detection of the machine: operating system and processor as capability tokens."""

import pytest

from gigafactory.factory.machine.detect import DetectedMachine, arch_name, os_name
from gigafactory.factory.machine.engines import DetectedEngine


@pytest.mark.parametrize(
    ("name", "expected"), [("linux", "linux"), ("darwin", "mac"), ("win32", "windows")]
)
def test_os_name_is_normalized(name: str, expected: str) -> None:
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
def test_processor_name_is_normalized(machine: str, expected: str) -> None:
    assert arch_name(machine) == expected


def test_engine_with_a_problem_gives_no_token() -> None:
    detected = DetectedMachine(
        os="mac",
        capabilities=("os:mac",),
        repos=("notes",),
        engines={"claude": DetectedEngine(), "codex": DetectedEngine(problem="it changed")},
    )
    assert detected.tokens == {"os:mac", "repo:notes", "engine:claude"}
