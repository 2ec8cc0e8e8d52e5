"""How much a program of a job may see and touch, and whether this machine can hold it to that."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.process.probe import ask
from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox import egress_proxy as gateway
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.allow_list import SETTING, AllowList
from gigafactory.factory.sandbox.bubblewrap import REQUIRED_OPTION, Bubblewrap
from gigafactory.factory.sandbox.confinement import Tool, confined
from gigafactory.factory.sandbox.egress import WaysOut
from gigafactory.factory.sandbox.probe import probe
from gigafactory.factory.sandbox.seatbelt import EXECUTABLE, Seatbelt
from gigafactory.factory.sandbox.upstream_proxy import Upstream

STRENGTH: dict[Policy, int] = {"none": 0, "workspace": 1, "strict": 2}
SWITCHED_OFF = "it is switched off (`factory.sandbox`)"


class NoSandbox(Refused):
    """A sandbox is asked for, and this machine has none that holds."""

    code = "no_sandbox"


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
        missing: Mapping[Policy, str] | None = None,
        ways: WaysOut | None = None,
        readable: Iterable[Path] = (),
        hidden: Iterable[Path] = (),
    ) -> None:
        """`missing` says what cannot be had, and why; `ways` lead out of `strict`."""
        self._tool = tool
        self.least = least
        self.missing = dict(missing or {})
        self._ways = ways or WaysOut()
        self._readable = tuple(readable)
        self._hidden = (*view.HIDDEN, *hidden)

    @property
    def broken(self) -> str:
        """What is wrong with a sandbox that is there and does not hold; empty if nothing is."""
        return self.missing.get("workspace", "") if self._tool is not None else ""

    @property
    def offered(self) -> tuple[Policy, ...]:
        """What a job may ask for here."""
        return tuple(each for each in STRENGTH if each not in self.missing)

    def held_to(self, policy: Policy | None, *, yolo: bool = False) -> Policy:
        """What a job that asks for this is kept in.

        Raises NoSandbox when it cannot be had, and for a yolo job where the sandbox is broken.
        """
        found = stronger(self.least, policy)
        if found in self.missing:
            raise NoSandbox(
                f"the job asks for the sandbox {found!r}, which this machine does not have:"
                f" {self.missing[found]}"
            )
        if yolo and self.broken:
            raise NoSandbox(
                f"a yolo job is not run where the sandbox does not hold: {self.broken}; mend it, or"
                " switch it off (`factory.sandbox`) to do without"
            )
        return found

    @contextlib.asynccontextmanager
    async def confined(
        self,
        program: Program,
        *,
        writable: Iterable[Path],
        policy: Policy | None = None,
        readable: Iterable[Path] = (),
        needed: Iterable[Path] = (),
        emptied: Iterable[Path] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[Program]:
        """The program as it has to be started, while the block lasts.

        What is `needed` is shown where it would be hidden, but never somebody's whole home; what is
        `emptied` is found without anything in it, wherever it is. `tell`
        hears of hosts that it may not reach. Raises NoSandbox, or CannotStart.
        """
        held_to = self.held_to(policy)
        if self._tool is None or held_to == "none":
            yield program
            return
        ways = self._ways if held_to == "strict" else None
        needed = (
            *view.NEEDED,
            *view.installed(program),
            *(gateway.needs() if ways else ()),
            *needed,
        )
        seen = view.places(
            writable=writable,
            readable=(*view.shown(needed, self._hidden), *self._readable, *readable),
            hidden=self._hidden,
            emptied=emptied,
        )
        async with confined(self._tool, program, seen, ways=ways, tell=tell) as wrapped:
            yield wrapped


async def available(path: str | None = None) -> tuple[Tool | None, str]:
    """The tool of this machine, looked for on a PATH, or why there is none."""
    if sys.platform == "darwin":
        found = shutil.which(EXECUTABLE)
        return (Seatbelt(), "") if found else (None, f"{EXECUTABLE} is missing")
    executable = shutil.which("bwrap", path=path) if sys.platform == "linux" else None
    if executable is None:
        return None, "bubblewrap is not installed (Linux: install the package `bubblewrap`)"
    said = await ask((executable, "--help"), env={}, limit_s=10.0)
    if REQUIRED_OPTION not in said.text:
        return None, f"{executable} does not know {REQUIRED_OPTION}: bubblewrap 0.8 or later does"
    return Bubblewrap(executable), ""


async def choose(
    demanded: Policy | None,
    *,
    environ: Mapping[str, str] = os.environ,
    allow_hosts: Iterable[str] = (),
    readable: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
) -> Sandbox:
    """The sandbox of this factory: what is demanded, else `workspace` where that really holds.

    `environ` is the factory's own: where its tool is, and how it reaches the network. Raises
    NoSandbox when what is demanded cannot be had, with the reason, and Invalid for hosts that are
    none.
    """
    allowed = AllowList.of(allow_hosts)
    tool, missing = (
        (None, SWITCHED_OFF) if demanded == "none" else await available(environ.get("PATH"))
    )
    faults: dict[Policy, str] = {"workspace": missing, "strict": missing}
    if tool is not None:
        faults = await _faults(tool, allowed)
    if demanded is not None and demanded in faults:
        raise NoSandbox(
            f"the sandbox {demanded!r} is demanded, and cannot be had: {faults[demanded]}"
        )
    least = demanded or ("none" if "workspace" in faults else "workspace")
    return Sandbox(
        tool,
        least,
        missing=faults,
        ways=WaysOut(allowed, Upstream.of(environ)),
        readable=(*view.toolchains(_home()), *readable),
        hidden=hidden,
    )


async def _faults(tool: Tool, allowed: AllowList) -> dict[Policy, str]:
    """What does not hold, tried side by side: a job may ask for more than is demanded."""
    shared, alone = await asyncio.gather(probe(tool, network=True), probe(tool, network=False))
    if alone is None and allowed.entries and not tool.own_network:
        alone = (
            f"on this system it has no network at all, and {SETTING} names hosts; leave it empty"
        )
    found: dict[Policy, str | None] = {"workspace": shared, "strict": alone}
    return {policy: fault for policy, fault in found.items() if fault is not None}


def _home() -> Path:
    return Path.home()
