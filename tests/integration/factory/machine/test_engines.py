"""Engines on PATH: available, changed, broken or missing."""

import sys
from pathlib import Path

import pytest

from gigafactory.engines.protocol.engine import Engine
from gigafactory.factory.machine.engines import DetectedEngine, detect_engines
from gigafactory.factory.process.probe import ProgramProbe
from tests.support.factory.fake_tools import FAILS, FLOODS, GARBAGE, HANGS, agent, fake_engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

VERSION = "echo '2.1.197 (Claude Code)'"
FLAGS = "echo 'Usage: [options]  -p, --print  --model <model>'"
CLAUDE = fake_engine("claude", ("claude", "claude-code"))
COMMAND = fake_engine("command", ("/bin/sh",), flags=(), engine_class=None)


async def look(
    folder: Path, *engines: Engine, total_s: float = 60.0, **seats: int
) -> dict[str, DetectedEngine]:
    environ = {"PATH": str(folder)}
    probe = ProgramProbe(environ, at_once=4, total_s=total_s)
    return await detect_engines({each.name: each for each in engines}, probe, environ, seats)


async def problem(folder: Path, *, total_s: float = 60.0) -> str:
    found = (await look(folder, CLAUDE, total_s=total_s))["claude"]
    assert found.problem is not None
    return found.problem.replace(str(folder), "/bin")


async def test_an_engine_is_found_with_its_version_and_one_seat(tmp_path: Path) -> None:
    file = agent(tmp_path, "claude", version=VERSION, flags=FLAGS)
    assert await look(tmp_path, CLAUDE) == {
        "claude": DetectedEngine(program=str(file), version="2.1.197", seats=1)
    }


async def test_engine_is_found_by_an_alternative_program_name(tmp_path: Path) -> None:
    file = agent(tmp_path, "claude-code", version=VERSION, flags=FLAGS)
    assert (await look(tmp_path, CLAUDE))["claude"].program == str(file)


async def test_engine_without_a_required_flag_is_unavailable_with_a_reason(
    tmp_path: Path,
) -> None:
    agent(tmp_path, "claude", version=VERSION, flags="echo '--model-name --print'")
    assert await problem(tmp_path) == (
        "claude (/bin/claude) 2.1.197 does not offer --model, which Gigafactory starts it with:"
        " install a version that does, or update Gigafactory"
    )


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (FAILS, "--version ended with exit code 3: cannot find the runtime"),
        (FLOODS, "--version printed more than 262144 bytes"),
    ],
)
async def test_engine_with_a_failing_version_command_is_unavailable(
    tmp_path: Path, version: str, sentence: str
) -> None:
    agent(tmp_path, "claude", version=version, flags=FLAGS)
    assert await problem(tmp_path) == f"claude (/bin/claude) {sentence}"


async def test_engine_with_a_hanging_version_command_is_unavailable(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=HANGS, flags=HANGS)
    assert "--version did not answer within" in await problem(tmp_path, total_s=0.5)


async def test_engine_with_a_failing_help_command_reports_the_error(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=FAILS)
    assert "--help ended with exit code 3: cannot find the runtime" in await problem(tmp_path)


async def test_help_output_counts_whatever_its_exit_code(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=f"{FLAGS}; exit 1")
    assert (await look(tmp_path, CLAUDE))["claude"].problem is None


async def test_engine_without_a_parsable_version_is_available(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=GARBAGE, flags=FLAGS)
    found = (await look(tmp_path, CLAUDE))["claude"]
    assert (found.version, found.problem) == (None, None)


async def test_missing_engine_is_not_detected(tmp_path: Path) -> None:
    assert await look(tmp_path, CLAUDE) == {}


async def test_seats_for_a_missing_engine_are_reported_as_a_problem(tmp_path: Path) -> None:
    assert await look(tmp_path, CLAUDE, claude=2) == {
        "claude": DetectedEngine(
            seats=2,
            problem="claude has 2 seats and is not here: there is no claude or claude-code on PATH",
        )
    }


async def test_zero_seats_turn_an_engine_off(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=FLAGS)
    assert await look(tmp_path, CLAUDE, claude=0) == {}


async def test_command_engine_and_engines_without_a_program_are_always_detected(
    tmp_path: Path,
) -> None:
    assert await look(tmp_path, COMMAND, fake_engine("acp")) == {
        "command": DetectedEngine(program="/bin/sh", seats=2),
        "acp": DetectedEngine(seats=1),
    }


async def test_engine_problem_is_cut_to_heartbeat_length(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags="echo nothing")
    many = fake_engine("claude", ("claude",), flags=tuple(f"--flag-number-{n}" for n in range(100)))
    found = (await look(tmp_path, many))["claude"]
    assert found.problem is not None
    assert len(found.problem) == 500
