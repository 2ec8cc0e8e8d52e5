"""Engines on PATH: found, changed, broken or absent."""

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


async def test_an_engine_may_go_by_another_name(tmp_path: Path) -> None:
    file = agent(tmp_path, "claude-code", version=VERSION, flags=FLAGS)
    assert (await look(tmp_path, CLAUDE))["claude"].program == str(file)


async def test_an_engine_that_has_changed_its_flags_is_not_usable_and_says_why(
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
async def test_an_engine_that_cannot_say_its_version_is_not_usable(
    tmp_path: Path, version: str, sentence: str
) -> None:
    agent(tmp_path, "claude", version=version, flags=FLAGS)
    assert await problem(tmp_path) == f"claude (/bin/claude) {sentence}"


async def test_an_engine_that_hangs_is_not_usable(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=HANGS, flags=HANGS)
    assert "--version did not answer within" in await problem(tmp_path, total_s=0.5)


async def test_an_engine_whose_help_fails_says_so(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=FAILS)
    assert "--help ended with exit code 3: cannot find the runtime" in await problem(tmp_path)


async def test_a_good_help_counts_whatever_its_exit_code(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=f"{FLAGS}; exit 1")
    assert (await look(tmp_path, CLAUDE))["claude"].problem is None


async def test_an_engine_without_a_readable_version_is_usable(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=GARBAGE, flags=FLAGS)
    found = (await look(tmp_path, CLAUDE))["claude"]
    assert (found.version, found.problem) == (None, None)


async def test_an_engine_that_is_not_here_is_not_found(tmp_path: Path) -> None:
    assert await look(tmp_path, CLAUDE) == {}


async def test_seats_for_an_engine_that_is_not_here_are_a_problem(tmp_path: Path) -> None:
    assert await look(tmp_path, CLAUDE, claude=2) == {
        "claude": DetectedEngine(
            seats=2,
            problem="claude has 2 seats and is not here: there is no claude or claude-code on PATH",
        )
    }


async def test_no_seats_turn_an_engine_off(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags=FLAGS)
    assert await look(tmp_path, CLAUDE, claude=0) == {}


async def test_command_is_always_there_and_an_engine_without_a_program_too(
    tmp_path: Path,
) -> None:
    assert await look(tmp_path, COMMAND, fake_engine("acp")) == {
        "command": DetectedEngine(program="/bin/sh", seats=2),
        "acp": DetectedEngine(seats=1),
    }


async def test_a_problem_fits_into_a_heartbeat(tmp_path: Path) -> None:
    agent(tmp_path, "claude", version=VERSION, flags="echo nothing")
    many = fake_engine("claude", ("claude",), flags=tuple(f"--flag-number-{n}" for n in range(100)))
    found = (await look(tmp_path, many))["claude"]
    assert found.problem is not None
    assert len(found.problem) == 500
