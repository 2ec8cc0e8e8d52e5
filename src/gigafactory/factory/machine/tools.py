"""The tools that a factory looks for on its machine, and the tokens that they stand for."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.process.probe import Probe

VERSION_CHARS_MAX = 60

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_ASIDE = re.compile(r"\([^()]*\)")
_DOTTED = re.compile(r"(?<![\w.])v?([0-9]{1,12}(?:\.[0-9]{1,12}){1,5})")
_NUMBER = re.compile(r"\s*v?([0-9]{1,12})\s*")
_JAVA = re.compile(r"\b(?:openjdk|java)(?: version)? \"?([0-9]{1,6}(?:[._][0-9]{1,6}){0,4})")
_GO = re.compile(r"\bgo([0-9]{1,6}(?:\.[0-9]{1,6}){1,3})")


def strip_escapes(text: str) -> str:
    """The text as a reader sees it, without what a terminal obeys."""
    return _ESCAPE.sub("", text)


def parse_version(text: str) -> str | None:
    """The version in what most tools print; what stands in brackets counts last.

    `gcc (Debian 12.2.0-14) 12.3.0` is 12.3.0, `Poetry (version 1.7.1)` is 1.7.1.
    """
    for line in strip_escapes(text).splitlines():
        found = _DOTTED.search(_ASIDE.sub(" ", line)) or _DOTTED.search(line)
        found = found or _NUMBER.fullmatch(line)
        if found:
            return found[1][:VERSION_CHARS_MAX].rstrip(".")
    return None


def parse_java_version(text: str) -> str | None:
    """The version of a Java; the old `1.8.0_392` is what everybody calls 8."""
    found = _JAVA.search(strip_escapes(text))
    return found[1].replace("_", ".").removeprefix("1.") if found else None


def parse_go_version(text: str) -> str | None:
    """The version of Go, which stands right after its name."""
    found = _GO.search(strip_escapes(text))
    return found[1] if found else None


def missing_flags(help_text: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The flags that a help text does not name; `--json-schema` does not stand for `--json`."""
    text = strip_escapes(help_text)
    return tuple(
        flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text)
    )


class KnownTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool: under what names it is looked for, and how it is asked for its version."""

    name: str
    programs: tuple[str, ...] = ()
    """Names of its executable; none means that it is called as it is named."""
    argv: tuple[str, ...] | None = ("--version",)
    """None for a program that opens a window: being there is enough."""
    version: Callable[[str], str | None] = parse_version
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
