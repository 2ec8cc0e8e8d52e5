"""Small programs for the tests of processes, and a recorder of their output."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from gigafactory.factory.process.orphans import find_orphans, new_mark
from gigafactory.factory.process.process import ProcessLimits, ProcessResult, Program, run

PATH = "/usr/local/bin:/usr/bin:/bin"
GRACE_S = 0.2
PATIENT_S = 60.0


class OutputRecorder:
    """A recorder of output lines that may answer on stdin."""

    def __init__(self, answer: Callable[[str], Iterable[bytes]] = lambda _: ()) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self._answer = answer

    def on_line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        (self.err if stderr else self.out).append(text)
        return self._answer(text)


class ProgramOptions(TypedDict, total=False):
    """Optional settings of a program."""

    cwd: Path
    env: Mapping[str, str]
    stdin: bytes
    stdin_open: bool
    extra_input: bytes


def shell(script: str, **options: Unpack[ProgramOptions]) -> Program:
    return program("/bin/sh", "-c", script, **options)


def python(script: str, **options: Unpack[ProgramOptions]) -> Program:
    return program(sys.executable, "-I", "-c", script, **options)


def program(*argv: str, **options: Unpack[ProgramOptions]) -> Program:
    options_with_defaults: ProgramOptions = {"cwd": Path("/"), "env": {"PATH": PATH}, **options}
    return Program(argv=argv, mark=new_mark(), **options_with_defaults)


async def run_program(
    program_to_run: Program,
    recorder: OutputRecorder | None = None,
    *,
    limits: ProcessLimits | None = None,
    stop: asyncio.Event | None = None,
    ladder: Iterable[str] = (),
) -> tuple[ProcessResult, OutputRecorder]:
    """Run a program to its end and check that no orphan is left."""
    recorder = recorder or OutputRecorder()
    limits = limits or ProcessLimits(wall_s=PATIENT_S, grace_s=GRACE_S)
    result = await run(program_to_run, limits, recorder, stop or asyncio.Event(), tuple(ladder))
    assert find_orphans(program_to_run.mark) == []
    assert result.orphans.survived == ()
    return result, recorder


def stop_on_line(line: str, stop: asyncio.Event) -> Callable[[str], Iterable[bytes]]:
    """Return an answer function that sets `stop` at a line."""

    def answer(text: str) -> Iterable[bytes]:
        if text == line:
            stop.set()
        return ()

    return answer


def set_on_output(event: asyncio.Event) -> Callable[[str], Iterable[bytes]]:
    """Return an answer function that sets an event at any line."""

    def answer(_: str) -> Iterable[bytes]:
        event.set()
        return ()

    return answer
