"""How much a program of a job may see and touch, and whether this machine can hold it to that."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest import Sandbox as Policy
from gigafactory.factory import view
from gigafactory.factory.bubblewrap import REQUIRED_OPTION, Bubblewrap
from gigafactory.factory.probe import ask
from gigafactory.factory.program import CannotStart, Program
from gigafactory.factory.sandbox_probe import probe
from gigafactory.factory.seatbelt import EXECUTABLE, Seatbelt
from gigafactory.factory.view import Place

STRENGTH: dict[Policy, int] = {"none": 0, "workspace": 1, "strict": 2}


class NoSandbox(Refused):
    """The factory demands a sandbox, and this machine has none that holds."""

    code = "no_sandbox"


class Tool(Protocol):
    """What the system has to confine a program."""

    def wrap(self, program: Program, seen: Sequence[Place], *, network: bool) -> Program:
        """The same program, seeing only what it may."""
        ...


def stronger(one: Policy, other: Policy | None) -> Policy:
    """The stricter of two policies."""
    return one if other is None or STRENGTH[one] >= STRENGTH[other] else other


class Sandbox:
    """Confines the programs of jobs: as much as a job asks for, and never less than `least`."""

    def __init__(
        self,
        tool: Tool | None,
        least: Policy,
        *,
        missing: str = "",
        readable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
    ) -> None:
        """`missing` says why there is no tool; the rest holds for every program."""
        self._tool = tool
        self.least = least
        self.missing = missing
        self._readable = tuple(readable)
        self._hidden = tuple(hidden)

    def wrap(
        self,
        program: Program,
        *,
        writable: Iterable[Path],
        policy: Policy | None = None,
        readable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
    ) -> Program:
        """The program as it has to be started.

        Raises CannotStart when it cannot be confined as it must be.
        """
        held_to = stronger(self.least, policy)
        if held_to == "none":
            return program
        if self._tool is None:
            raise CannotStart(
                f"cannot start {program.argv[0]!r}: the job asks for the sandbox {held_to!r},"
                f" and this machine has none: {self.missing}"
            )
        seen = view.places(
            writable=writable,
            readable=self._shown(program, readable, hidden),
            hidden=(*view.HIDDEN, *self._hidden, *hidden),
        )
        return self._tool.wrap(program, seen, network=held_to != "strict")

    def _shown(
        self, program: Program, readable: Iterable[Path], hidden: Iterable[Path]
    ) -> list[Path]:
        kept_from = view.places(
            writable=(), readable=(), hidden=(*view.HIDDEN, *self._hidden, *hidden)
        )
        needed = (*view.NEEDED, *view.installed(program))
        return [
            *(
                path
                for path in needed
                if view.access_of(path.resolve(), kept_from) == "none" and not view.is_home(path)
            ),
            *self._readable,
            *readable,
        ]


async def available() -> tuple[Tool | None, str]:
    """The tool of this machine, or why there is none."""
    if sys.platform == "darwin":
        found = shutil.which(EXECUTABLE)
        return (Seatbelt(), "") if found else (None, f"{EXECUTABLE} is missing")
    executable = shutil.which("bwrap") if sys.platform == "linux" else None
    if executable is None:
        return None, "bubblewrap is not installed (Linux: install the package `bubblewrap`)"
    said = await ask((executable, "--help"), env={}, limit_s=10.0)
    if REQUIRED_OPTION not in said.text:
        return None, f"{executable} does not know {REQUIRED_OPTION}: bubblewrap 0.8 or later does"
    return Bubblewrap(executable), ""


async def choose(
    demanded: Policy | None, *, readable: Iterable[Path] = (), hidden: Iterable[Path] = ()
) -> Sandbox:
    """The sandbox of this factory: what is demanded, else `workspace` where that really holds.

    Raises NoSandbox when what is demanded cannot be had, with the reason.
    """
    tool, missing = (None, "it is switched off") if demanded == "none" else await available()
    if tool is not None:
        fault = await probe(tool, network=demanded != "strict")
        if fault is not None:
            tool, missing = None, fault
    if tool is None and demanded not in {None, "none"}:
        raise NoSandbox(f"the sandbox {demanded!r} is demanded, and cannot be had: {missing}")
    least = demanded or ("workspace" if tool is not None else "none")
    shown = (*view.toolchains(_home()), *readable)
    return Sandbox(tool, least, missing=missing, readable=shown, hidden=hidden)


def _home() -> Path:
    return Path.home()
