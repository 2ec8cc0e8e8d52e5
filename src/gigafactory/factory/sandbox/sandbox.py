"""The sandbox of a factory: which policies this machine can enforce, and how a job is confined."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.domain.manifest.manifest import Sandbox as Policy
from gigafactory.factory.core.search_path import absolute_search_path
from gigafactory.factory.process.probe import run_probe
from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox import egress_proxy as gateway
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.allow_list import SETTING, AllowList
from gigafactory.factory.sandbox.bubblewrap import REQUIRED_OPTION, Bubblewrap
from gigafactory.factory.sandbox.confinement import SandboxTool, confine
from gigafactory.factory.sandbox.egress import Egress
from gigafactory.factory.sandbox.probe import Exposure, probe
from gigafactory.factory.sandbox.seatbelt import EXECUTABLE, Seatbelt
from gigafactory.factory.sandbox.upstream_proxy import UpstreamProxy

STRICTNESS: dict[Policy, int] = {"none": 0, "workspace": 1, "strict": 2}
SWITCHED_OFF = "it is switched off (`factory.sandbox`)"
YOLO_REMEDY = (
    "repair or install it (`aq doctor` says how), or let yolo jobs do on this machine whatever its"
    " user can do (`factory.yolo-without-sandbox = true`)"
)


class SandboxUnavailable(Refused):
    """A sandbox was requested, and this machine has none that works."""

    code = "no_sandbox"


def stricter(one: Policy, other: Policy | None) -> Policy:
    """Return the stricter of two policies."""
    return one if other is None or STRICTNESS[one] >= STRICTNESS[other] else other


class Sandbox:
    """Confines the programs of jobs: as strictly as a job asks, never less than `minimum`."""

    def __init__(
        self,
        tool: SandboxTool | None,
        minimum: Policy,
        *,
        missing: Mapping[Policy, str] | None = None,
        egress: Egress | None = None,
        exposure: Exposure = Exposure(),  # noqa: B008 - frozen
        yolo_unconfined: bool = False,
    ) -> None:
        """`missing` says which policies are unavailable, and why; `egress` applies to `strict`.

        With `yolo_unconfined`, the operator lets yolo jobs run without a sandbox.
        """
        self._tool = tool
        self.minimum = minimum
        self.missing = dict(missing or {})
        self._egress = egress or Egress()
        self._exposure = exposure
        self._yolo_unconfined = yolo_unconfined

    @property
    def no_yolo(self) -> str:
        """Return why this factory takes no yolo jobs; an empty text if it takes them."""
        if self.minimum != "none" or self._yolo_unconfined:
            return ""
        return self.missing.get("workspace", SWITCHED_OFF)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Return the policies that a job may ask for here."""
        return tuple(each for each in STRICTNESS if each not in self.missing)

    def policy_for(self, policy: Policy | None, *, yolo: bool = False) -> Policy:
        """Return the policy that applies to a job that asks for `policy`.

        Raises SandboxUnavailable, also for a yolo job that would not be confined.
        """
        applied = stricter(self.minimum, policy)
        if applied in self.missing:
            raise SandboxUnavailable(
                f"the job asks for the sandbox {applied!r}, which is not available on this machine:"
                f" {self.missing[applied]}"
            )
        if yolo and applied == "none" and self.no_yolo:
            raise SandboxUnavailable(
                f"a yolo job needs a sandbox, and this machine has none that works: {self.no_yolo};"
                f" {YOLO_REMEDY}"
            )
        return applied

    @contextlib.asynccontextmanager
    async def confine(
        self,
        program: Program,
        *,
        writable: Iterable[Path],
        policy: Policy | None = None,
        readable: Iterable[Path] = (),
        needed: Iterable[Path] = (),
        emptied: Iterable[Path] = (),
        report: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[Program]:
        """Yield the program as it has to be started; it is served while the block lasts.

        Paths in `needed` are shown, but never a whole home. Paths in `emptied` exist without
        content. `report` is called for forbidden hosts. Raises SandboxUnavailable or CannotStart.
        """
        held_to = self.policy_for(policy)
        if self._tool is None or held_to == "none":
            yield program
            return
        egress = self._egress if held_to == "strict" else None
        seen = view.build_mounts(
            program,
            writable=writable,
            readable=(*self._exposure.readable, *readable),
            needed=(*(gateway.required_paths() if egress else ()), *needed),
            hidden=self._exposure.hidden,
            emptied=emptied,
        )
        async with confine(self._tool, program, seen, egress=egress, report=report) as wrapped:
            yield wrapped


async def find_tool(path: str | None = None) -> tuple[SandboxTool | None, str]:
    """Return this machine's sandbox tool, found on PATH, or why there is none."""
    if sys.platform == "darwin":
        executable_path = shutil.which(EXECUTABLE)
        return (Seatbelt(), "") if executable_path else (None, f"{EXECUTABLE} is missing")
    search = absolute_search_path(os.environ.get("PATH", os.defpath) if path is None else path)
    executable = shutil.which("bwrap", path=search) if sys.platform == "linux" else None
    if executable is None:
        return None, "bubblewrap is not installed (Debian, Ubuntu: apt-get install bubblewrap)"
    help_output = await run_probe((executable, "--help"), env={}, limit_s=10.0)
    if REQUIRED_OPTION not in help_output.text:
        return None, f"{executable} does not know {REQUIRED_OPTION}: bubblewrap 0.8 or later does"
    return Bubblewrap(executable), ""


async def choose_sandbox(
    demanded: Policy | None,
    *,
    environ: Mapping[str, str] = os.environ,
    allow_hosts: Iterable[str] = (),
    readable: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
    secrets: Iterable[Path] = (),
    yolo_unconfined: bool = False,
) -> Sandbox:
    """Return the sandbox of this factory: the demanded policy, else `workspace` if it works.

    `environ` is the factory's own: it has the PATH of the tool and the upstream proxy. `secrets`
    are files that a run must not be able to read; that is tried. Raises SandboxUnavailable if the
    demanded policy is unavailable, and Invalid for invalid hosts.
    """
    allowed = AllowList.parse(allow_hosts)
    tool, missing = (
        (None, SWITCHED_OFF) if demanded == "none" else await find_tool(environ.get("PATH"))
    )
    home = _home()
    exposure = Exposure(
        readable=(*view.toolchain_folders(home), *readable),
        hidden=(*view.hidden_homes(home), *view.toolchain_credentials(home), *hidden),
        secrets=tuple(secrets),
    )
    faults: dict[Policy, str] = {"workspace": missing, "strict": missing}
    if tool is not None:
        faults = await _faults(tool, allowed, exposure)
    if demanded is not None and demanded in faults:
        raise SandboxUnavailable(
            f"the sandbox {demanded!r} is required but not available: {faults[demanded]}"
        )
    least = demanded or ("none" if "workspace" in faults else "workspace")
    return Sandbox(
        tool,
        least,
        missing=faults,
        egress=Egress(allowed, UpstreamProxy.from_environment(environ)),
        exposure=exposure,
        yolo_unconfined=yolo_unconfined,
    )


async def _faults(tool: SandboxTool, allowed: AllowList, exposure: Exposure) -> dict[Policy, str]:
    """Return what does not work, all tried at once: a job may ask for more than is demanded."""
    shared, separate = await asyncio.gather(
        probe(tool, network=True, exposure=exposure), probe(tool, network=False, exposure=exposure)
    )
    if separate is None and allowed.entries and not tool.own_network:
        separate = (
            f"on this system it has no network at all, but {SETTING} names hosts; leave it empty"
        )
    faults: dict[Policy, str | None] = {"workspace": shared, "strict": separate}
    return {policy: fault for policy, fault in faults.items() if fault is not None}


def _home() -> Path:
    return Path.home()
