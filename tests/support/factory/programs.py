"""Small programs for the tests of processes, and a listener for their output."""

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


class Heard:
    """Keeps what it hears, and answers as it was told."""

    def __init__(self, answer: Callable[[str], Iterable[bytes]] = lambda _: ()) -> None:
        self.out: list[str] = []
        self.err: list[str] = []
        self._answer = answer

    def on_line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        (self.err if stderr else self.out).append(text)
        return self._answer(text)


class More(TypedDict, total=False):
    """What a program may have beside its command."""

    cwd: Path
    env: Mapping[str, str]
    stdin: bytes
    stdin_open: bool
    extra_input: bytes


def shell(script: str, **more: Unpack[More]) -> Program:
    return program("/bin/sh", "-c", script, **more)


def python(script: str, **more: Unpack[More]) -> Program:
    return program(sys.executable, "-I", "-c", script, **more)


def program(*argv: str, **more: Unpack[More]) -> Program:
    given: More = {"cwd": Path("/"), "env": {"PATH": PATH}, **more}
    return Program(argv=argv, mark=new_mark(), **given)


async def ran(
    what: Program,
    heard: Heard | None = None,
    *,
    limits: ProcessLimits | None = None,
    stop: asyncio.Event | None = None,
    ladder: Iterable[str] = (),
) -> tuple[ProcessResult, Heard]:
    """Run it to its end, and see to it that nothing of it is left."""
    heard = heard or Heard()
    limits = limits or ProcessLimits(wall_s=PATIENT_S, grace_s=GRACE_S)
    ended = await run(what, limits, heard, stop or asyncio.Event(), tuple(ladder))
    assert find_orphans(what.mark) == []
    assert ended.orphans.survived == ()
    return ended, heard


def stopping_at(line: str, stop: asyncio.Event) -> Callable[[str], Iterable[bytes]]:
    """An answer that asks for the end when a line is heard."""

    def answer(heard: str) -> Iterable[bytes]:
        if heard == line:
            stop.set()
        return ()

    return answer


def telling(event: asyncio.Event) -> Callable[[str], Iterable[bytes]]:
    """An answer that tells that something was heard."""

    def answer(_: str) -> Iterable[bytes]:
        event.set()
        return ()

    return answer
