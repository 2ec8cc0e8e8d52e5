"""Detects the engines of this machine: program, version, seats, and problems."""

import asyncio
import difflib
import re
from collections.abc import Collection, Mapping

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.fleet.factory import EngineSeats
from gigafactory.domain.manifest.engine_ref import COMMAND
from gigafactory.engines.protocol.engine import Engine
from gigafactory.factory.machine.tools import missing_flags, parse_version, which
from gigafactory.factory.process.probe import ProbeResult, ProgramProbe

ENGINE_ANSWER_S = 10.0
SEATS_MAX = 1000
SEATS_DEFAULT = 1
COMMAND_SEATS_DEFAULT = 2
PROBLEM_CHARS_MAX = 500
_SEATS = re.compile(r"[0-9]{1,4}")


class DetectedEngine(msgspec.Struct, frozen=True, kw_only=True):
    """One detected engine."""

    program: str = ""
    """The executable; empty for an engine without one."""
    version: str | None = None
    seats: int = SEATS_DEFAULT
    problem: str | None = None
    """Why it cannot be used; None if it can."""

    @property
    def to_engine_seats(self) -> EngineSeats:
        """Return the engine as a heartbeat reports it."""
        return EngineSeats(version=self.version, seats=self.seats, unavailable=self.problem)


async def detect_engines(
    engines: Mapping[str, Engine],
    probe: ProgramProbe,
    environ: Mapping[str, str],
    seats: Mapping[str, int] | None = None,
) -> dict[str, DetectedEngine]:
    """Return the engines on PATH, and those with configured seats; 0 seats disable one."""
    wanted = seats or {}
    names = [name for name in engines if wanted.get(name) != 0]
    lookups = (_look_up(name, engines[name], probe, environ, wanted.get(name)) for name in names)
    detected = await asyncio.gather(*lookups)
    return {name: each for name, each in zip(names, detected, strict=True) if each is not None}


def parse_seats(text: str, engines: Collection[str]) -> dict[str, int]:
    """Parse `claude=2,codex=1`; raise Invalid with every wrong part."""
    seats: dict[str, int] = {}
    faults: list[Fault] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        if wrong := _wrong_seats(name, equals, count, engines):
            faults.append(Fault("", f"found {part!r}; {wrong}"))
        elif name in seats:
            faults.append(Fault("", f"found {part!r}; {name} is given twice"))
        else:
            seats[name] = int(count)
    if faults:
        raise Invalid("--seats", faults)
    return seats


def _wrong_seats(name: str, equals: str, count: str, engines: Collection[str]) -> str | None:
    if not name or not equals:
        return "expected an engine and its seats, such as claude=2"
    if name not in engines:
        nearest = difflib.get_close_matches(name, engines, n=1, cutoff=0.6)
        guess = f"did you mean {nearest[0]}?" if nearest else "known are " + ", ".join(engines)
        return f"there is no engine {name!r}; {guess}"
    if not _SEATS.fullmatch(count) or int(count) > SEATS_MAX:
        return f"expected a whole number of seats from 0 to {SEATS_MAX}"
    return None


async def _look_up(
    name: str, engine: Engine, probe: ProgramProbe, environ: Mapping[str, str], seats: int | None
) -> DetectedEngine | None:
    program = which(engine.programs, environ)
    count = seats or (COMMAND_SEATS_DEFAULT if name == COMMAND else SEATS_DEFAULT)
    if name == COMMAND or not engine.programs:
        return DetectedEngine(program=program or next(iter(engine.programs), ""), seats=count)
    if program is not None:
        return await _examine(name, engine, program, probe, count)
    if seats is None:
        return None
    looked_for = " or ".join(engine.programs)
    problem = f"{name} has {seats} seats and is not here: there is no {looked_for} on PATH"
    return DetectedEngine(seats=count, problem=problem)


async def _examine(
    name: str, engine: Engine, program: str, probe: ProgramProbe, seats: int
) -> DetectedEngine:
    version_probe, help_probe = await asyncio.gather(
        probe.run(program, *engine.version_argv, limit_s=ENGINE_ANSWER_S),
        _help(engine, program, probe),
    )
    version = parse_version(version_probe.text) if version_probe.problem is None else None
    problem = _problem(f"{name} ({program})", engine, version, version_probe, help_probe)
    cut = problem and problem[:PROBLEM_CHARS_MAX]
    return DetectedEngine(program=program, version=version, seats=seats, problem=cut)


async def _help(engine: Engine, program: str, probe: ProgramProbe) -> ProbeResult:
    if not engine.flags:
        return ProbeResult(exit_code=0)
    return await probe.run(program, *engine.help_argv, limit_s=ENGINE_ANSWER_S)


def _problem(
    who: str,
    engine: Engine,
    version: str | None,
    version_probe: ProbeResult,
    help_probe: ProbeResult,
) -> str | None:
    """Why the engine cannot be used. Some engines exit non-zero after a valid help text."""
    if version_probe.problem is not None:
        return f"{who} {' '.join(engine.version_argv)} {version_probe.problem}"
    missing = missing_flags(help_probe.text, engine.flags)
    if not missing:
        return None
    if help_probe.problem is not None:
        return f"{who} {' '.join(engine.help_argv)} {help_probe.problem}"
    flags = ", ".join(missing)
    return (
        f"{who} {version or 'of an unknown version'} does not offer {flags}, which Gigafactory"
        " starts it with: install a version that does, or update Gigafactory"
    )
