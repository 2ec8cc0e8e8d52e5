"""Detects the capability tokens of this machine."""

import asyncio
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.domain.manifest.capability import AdvertisedCapability
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.engines.protocol.engine import Engine
from gigafactory.factory.machine import health
from gigafactory.factory.machine.credentials import (
    CREDENTIALS,
    Credential,
    credentials_present,
    home_file_check,
)
from gigafactory.factory.machine.engines import DetectedEngine, detect_engines
from gigafactory.factory.machine.tools import TOOLS, KnownTool, detect_gpus, detect_tools
from gigafactory.factory.process.probe import ProgramProbe

DETECTION_S = 45.0
CAPABILITIES_MAX = 500
REPOS_MAX = 1000
FOLDERS_MAX = 10_000
GIB = 1024**3

SYSTEMS = {"darwin": "mac", "win32": "windows", "cygwin": "windows"}
ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}


class DetectedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The detected state of a machine, in the parts of a heartbeat."""

    os: str
    capabilities: tuple[str, ...]
    """All tokens except those of engines and repos."""
    repos: tuple[str, ...]
    engines: Mapping[str, DetectedEngine]

    @property
    def tokens(self) -> frozenset[str]:
        """All tokens, including usable engines and repos."""
        usable = (name for name, engine in self.engines.items() if engine.problem is None)
        return frozenset(
            (
                *self.capabilities,
                *(f"engine:{name}" for name in usable),
                *(f"repo:{name}" for name in self.repos),
            )
        )

    def with_tokens(self, *tokens: str) -> "DetectedMachine":
        """Return a copy with more tokens."""
        capabilities = (*tokens, *self.capabilities)[:CAPABILITIES_MAX]
        return msgspec.structs.replace(self, capabilities=capabilities)


async def detect(
    engines: Mapping[str, Engine],
    *,
    environ: Mapping[str, str],
    repo_base: Path | None = None,
    seats: Mapping[str, int] | None = None,
    tools: Sequence[KnownTool] = TOOLS,
    credentials: Mapping[str, Credential] = CREDENTIALS,
    total_s: float = DETECTION_S,
) -> DetectedMachine:
    """Detect what the machine offers: run all programs concurrently, and call no model."""
    cpus = health.cpus()
    probe = ProgramProbe(environ, at_once=max(4, 2 * cpus), total_s=total_s)
    arch = arch_name(platform.machine())
    tool_tokens, has, gpus, memory = await asyncio.gather(
        detect_engines(engines, probe, environ, seats),
        detect_tools(probe, environ, tools),
        detect_gpus(probe, environ, arch=arch),
        asyncio.to_thread(health.memory_total),
    )
    repos = await asyncio.to_thread(find_checkouts, repo_base) if repo_base else ()
    system = os_name(sys.platform)
    home = Path(environ.get("HOME") or Path.home())
    tokens = (
        *(f"os:{system}", f"arch:{arch}", f"cpus:{cpus}", *_memory(memory)),
        *(f"{name}:{each.version}" for name, each in tool_tokens.items() if each.version),
        *has,
        *gpus,
        *credentials_present(environ, home_file_check(home), credentials),
    )
    capabilities = _valid_tokens(tokens)[:CAPABILITIES_MAX]
    return DetectedMachine(os=system, capabilities=capabilities, repos=repos, engines=tool_tokens)


def os_name(name: str) -> str:
    """Return the name of the operating system as used in tokens."""
    return SYSTEMS.get(name, name)


def arch_name(machine: str) -> str:
    """Return the canonical name of a processor architecture."""
    plain = machine.lower()
    return ARCHITECTURES.get(plain, plain) or "unknown"


def find_checkouts(base: Path) -> tuple[str, ...]:
    """Return the names of repos one or two levels below a folder (`name`, `owner/name`)."""
    names: dict[str, None] = {}
    for folder in _folders(base, FOLDERS_MAX):
        inside = (folder,) if _is_checkout(folder) else _folders(folder, REPOS_MAX)
        names |= {repo_name(str(each)): None for each in inside if _is_checkout(each)}
    usable = _valid_tokens(f"repo:{name}" for name in sorted(names))
    return tuple(token.removeprefix("repo:") for token in usable)[:REPOS_MAX]


def _memory(total: int | None) -> tuple[str, ...]:
    # Firmware reserves memory: a machine with 16 GiB reports 15.6.
    return (f"mem:{max(1, round(total / GIB))}",) if total else ()


def _valid_tokens(tokens: Iterable[str]) -> tuple[str, ...]:
    """Keep the valid tokens: one invalid token would make the coordinator refuse all."""
    valid: dict[str, None] = {}
    for token in tokens:
        try:
            valid[AdvertisedCapability.parse(token).token] = None
        except ValueError:
            continue
    return tuple(valid)


def _folders(base: Path, limit: int) -> Iterator[Path]:
    try:
        with os.scandir(base) as entries:
            for _, entry in zip(range(limit), entries, strict=False):
                if entry.is_dir() and not entry.name.startswith("."):
                    yield Path(entry.path)
    except OSError:
        return


def _is_checkout(folder: Path) -> bool:
    try:
        bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        return bare or (folder / ".git").exists()
    except OSError:
        return False
