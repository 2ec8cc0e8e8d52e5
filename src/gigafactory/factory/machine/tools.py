"""Detects tools and their versions, and the capability tokens for them."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.core.search_path import absolute_search_path
from gigafactory.factory.process.probe import ProgramProbe

VERSION_CHARS_MAX = 60

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_ASIDE = re.compile(r"\([^()]*\)")
_DOTTED = re.compile(r"(?<![\w.])v?([0-9]{1,12}(?:\.[0-9]{1,12}){1,5})")
_NUMBER = re.compile(r"\s*v?([0-9]{1,12})\s*")
_JAVA = re.compile(r"\b(?:openjdk|java)(?: version)? \"?([0-9]{1,6}(?:[._][0-9]{1,6}){0,4})")
_WORD = re.compile(r"[\w-]+")
_GO = re.compile(r"\bgo([0-9]{1,6}(?:\.[0-9]{1,6}){1,3})")


def strip_escapes(text: str) -> str:
    """Return the text without terminal escape sequences."""
    return _ESCAPE.sub("", text)


def parse_version(text: str) -> str | None:
    """Return the version in a tool's output; versions in parentheses count last.

    `gcc (Debian 12.2.0-14) 12.3.0` is 12.3.0, `Poetry (version 1.7.1)` is 1.7.1.
    """
    for line in strip_escapes(text).splitlines():
        match = _DOTTED.search(_ASIDE.sub(" ", line)) or _DOTTED.search(line)
        match = match or _NUMBER.fullmatch(line)
        if match:
            return match[1][:VERSION_CHARS_MAX].rstrip(".")
    return None


def parse_java_version(text: str) -> str | None:
    """Return the version of Java; the legacy `1.8.0_392` is 8.0.392."""
    match = _JAVA.search(strip_escapes(text))
    return match[1].replace("_", ".").removeprefix("1.") if match else None


def parse_go_version(text: str) -> str | None:
    """Return the version of Go, which follows its name directly."""
    match = _GO.search(strip_escapes(text))
    return match[1] if match else None


def missing_flags(help_text: str, flags: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that a help text does not name; `--json-schema` is not `--json`."""
    named = set(_WORD.findall(strip_escapes(help_text)))
    return tuple(flag for flag in flags if flag not in named)


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool: the names of its program, and how to read its version."""

    name: str
    programs: tuple[str, ...] = ()
    """Names of its executable; by default the name of the tool."""
    argv: tuple[str, ...] | None = ("--version",)
    """None for a GUI program: its existence is enough."""
    version: Callable[[str], str | None] = parse_version
    apps: tuple[str, ...] = ()
    """Paths that prove its existence if it is not on PATH."""
    platform: str | None = None
    """The only `sys.platform` that has it."""

    def app_exists(self) -> bool:
        """Return whether it is installed outside of PATH."""
        return any(Path(app).exists() for app in self.apps)


TOOLS = (
    KnownTool(name="node"),
    KnownTool(name="python", programs=("python3", "python")),
    KnownTool(name="java", argv=("-version",), version=parse_java_version),
    KnownTool(name="go", argv=("version",), version=parse_go_version),
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
    # The client alone cannot run containers: ask the server.
    KnownTool(name="docker", argv=("version", "--format", "{{.Server.Version}}")),
    KnownTool(name="podman"),
    KnownTool(name="kubectl", argv=("version", "--client")),
    KnownTool(name="terraform"),
    # Every Mac has a stub with this name; only the real one answers.
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
"""Programs that list the GPUs of each make."""


def which(programs: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of the first program that is on PATH, in an absolute folder."""
    search = absolute_search_path(environ.get("PATH", os.defpath))
    for program in programs:
        if path := shutil.which(program, path=search):
            return os.path.abspath(path)  # noqa: PTH100 - a link keeps its own name
    return None


async def detect_tools(
    probe: ProgramProbe, environ: Mapping[str, str], tools: Sequence[KnownTool] = TOOLS
) -> tuple[str, ...]:
    """Return `has:<name>`, and `<name>:<version>` if known, for each tool that answers."""
    token_lists = await asyncio.gather(*(_tokens(tool, probe, environ) for tool in tools))
    return tuple(token for tokens in token_lists for token in tokens)


async def detect_gpus(
    probe: ProgramProbe, environ: Mapping[str, str], *, platform: str = sys.platform, arch: str = ""
) -> tuple[str, ...]:
    """Return `gpu`, and `gpu:<make>` for each make; every ARM Mac has one."""
    answered = await asyncio.gather(
        *(_has_card(argv, probe, environ) for argv in GPUS.values()),
    )
    makes = [make for make, present in zip(GPUS, answered, strict=True) if present]
    if platform == "darwin" and arch == "arm64":
        makes.append("apple")
    return ("gpu", *(f"gpu:{make}" for make in makes)) if makes else ()


async def _tokens(
    tool: KnownTool, probe: ProgramProbe, environ: Mapping[str, str]
) -> tuple[str, ...]:
    if tool.platform not in {None, sys.platform}:
        return ()
    program = which(tool.programs or (tool.name,), environ)
    has = f"has:{tool.name}"
    if program is None:
        return (has,) if tool.app_exists() else ()
    if tool.argv is None:
        return (has,)
    answer = await probe.run(program, *tool.argv)
    if answer.problem is not None:
        return ()
    version = tool.version(answer.text)
    return (has, f"{tool.name}:{version}") if version else (has,)


async def _has_card(argv: tuple[str, ...], probe: ProgramProbe, environ: Mapping[str, str]) -> bool:
    program = which(argv[:1], environ)
    if program is None:
        return False
    answer = await probe.run(program, *argv[1:])
    return answer.problem is None and "GPU" in answer.text
