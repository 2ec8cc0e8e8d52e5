"""The tools that a factory looks for on its machine, and the tokens that they stand for."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.machine import versions
from gigafactory.factory.process.probe import Probe


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: under what names it is looked for, and how it is asked for its version."""

    name: str
    programs: tuple[str, ...] = ()
    """Names of its executable; none means that it is called as it is named."""
    argv: tuple[str, ...] | None = ("--version",)
    """None for a program that opens a window: being there is enough."""
    version: Callable[[str], str | None] = versions.parse_version
    apps: tuple[str, ...] = ()
    """Paths that show that it is there, where it is no executable on PATH."""
    platform: str | None = None
    """The only `sys.platform` that has it."""

    def app_exists(self) -> bool:
        """Whether it is there as something else than an executable on PATH."""
        return any(Path(app).exists() for app in self.apps)


TOOLS = (
    KnownTool(name="node"),
    KnownTool(name="python", programs=("python3", "python")),
    KnownTool(name="java", argv=("-version",), version=versions.parse_java_version),
    KnownTool(name="go", argv=("version",), version=versions.parse_go_version),
    KnownTool(name="rust", programs=("rustc",)),
    KnownTool(name="ruby"),
    KnownTool(name="php"),
    KnownTool(name="dotnet"),
    KnownTool(name="swift"),
    KnownTool(name="deno"),
    KnownTool(name="bun"),
    KnownTool(name="git"),
    KnownTool(name="gh"),
    KnownTool(name="glab"),
    # The client alone runs no container: it is the server that must answer.
    KnownTool(name="docker", argv=("version", "--format", "{{.Server.Version}}")),
    KnownTool(name="podman"),
    KnownTool(name="kubectl", argv=("version", "--client")),
    KnownTool(name="terraform"),
    # Every Mac has a stub of this name; only the real one answers.
    KnownTool(name="xcode", programs=("xcodebuild",), argv=("-version",), platform="darwin"),
    KnownTool(
        name="figma",
        programs=("figma", "figma-linux"),
        argv=None,
        apps=("/Applications/Figma.app",),
    ),
    KnownTool(name="npm"),
    KnownTool(name="pnpm"),
    KnownTool(name="yarn"),
    KnownTool(name="uv"),
    KnownTool(name="poetry"),
    KnownTool(name="cargo"),
    KnownTool(name="bundler", programs=("bundle",)),
    KnownTool(name="maven", programs=("mvn",)),
    KnownTool(name="gradle"),
    KnownTool(name="make"),
    KnownTool(name="cmake"),
    KnownTool(name="gcc"),
    KnownTool(name="clang"),
    KnownTool(name="jq"),
    KnownTool(name="ffmpeg", argv=("-version",)),
    KnownTool(name="psql"),
    KnownTool(name="bwrap"),
)
"""Languages, build tools and services that a job may need."""

GPUS = {"nvidia": ("nvidia-smi", "-L"), "amd": ("rocm-smi", "--showid")}
"""Who can say whether there is a card of its make."""


def which(programs: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The absolute path of the first of these programs that PATH has."""
    for program in programs:
        if found := shutil.which(program, path=environ.get("PATH", os.defpath)):
            return os.path.abspath(found)  # noqa: PTH100 - a link keeps its own name
    return None


async def detect_tools(
    probe: Probe, environ: Mapping[str, str], tools: Sequence[KnownTool] = TOOLS
) -> tuple[str, ...]:
    """`has:<name>`, and `<name>:<version>` where it is known, of each tool that answers."""
    found = await asyncio.gather(*(_tokens(tool, probe, environ) for tool in tools))
    return tuple(token for tokens in found for token in tokens)


async def detect_gpus(
    probe: Probe, environ: Mapping[str, str], *, platform: str = sys.platform, arch: str = ""
) -> tuple[str, ...]:
    """`gpu`, and `gpu:<make>` of each make that is there; every Mac with an ARM chip has one."""
    answered = await asyncio.gather(
        *(_has_card(argv, probe, environ) for argv in GPUS.values()),
    )
    makes = [make for make, there in zip(GPUS, answered, strict=True) if there]
    if platform == "darwin" and arch == "arm64":
        makes.append("apple")
    return ("gpu", *(f"gpu:{make}" for make in makes)) if makes else ()


async def _tokens(tool: KnownTool, probe: Probe, environ: Mapping[str, str]) -> tuple[str, ...]:
    if tool.platform not in {None, sys.platform}:
        return ()
    program = which(tool.programs or (tool.name,), environ)
    has = f"has:{tool.name}"
    if program is None:
        return (has,) if tool.app_exists() else ()
    if tool.argv is None:
        return (has,)
    answer = await probe.ask(program, *tool.argv)
    if answer.problem is not None:
        return ()
    version = tool.version(answer.text)
    return (has, f"{tool.name}:{version}") if version else (has,)


async def _has_card(argv: tuple[str, ...], probe: Probe, environ: Mapping[str, str]) -> bool:
    program = which(argv[:1], environ)
    if program is None:
        return False
    answer = await probe.ask(program, *argv[1:])
    return answer.problem is None and "GPU" in answer.text
