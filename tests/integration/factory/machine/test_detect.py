"""Detection of a whole machine, which consists of small executables."""

import sys
from pathlib import Path

import msgspec
import pytest

from gigafactory.domain.manifest.capability import meets
from gigafactory.factory.machine.credentials import Credential
from gigafactory.factory.machine.detect import detect, find_checkouts
from gigafactory.factory.machine.tools import KnownTool
from gigafactory.wire.fleet import HeartbeatDoc
from tests.support.builders import NOON
from tests.support.factory.fake_tools import (
    FAILS,
    FLOODS,
    GARBAGE,
    HANGS,
    agent,
    fake_engine,
    program,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

CLAUDE = fake_engine("claude", ("claude",))
CODEX = fake_engine("codex", ("codex",))
ENGINES = {"claude": CLAUDE, "codex": CODEX}


def a_machine(folder: Path) -> dict[str, str]:
    """Create working and failing programs and return an environment that finds them."""
    programs = folder / "bin"
    for name, body in {
        "node": "echo v20.11.1",
        "python3": "echo Python 3.11.7",
        "java": "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2",
        "go": "echo go version go1.22.1 linux/amd64",
        "rustc": "echo 'rustc 1.95.0 (59807616e 2026-04-14)'",
        "git": "echo git version 2.39.5",
        "docker": "echo 'Cannot connect to the Docker daemon' >&2; exit 1",
        "pnpm": FLOODS,
        "npm": GARBAGE,
        "yarn": FAILS,
        "figma": "echo a window was opened; exit 1",
        "nvidia-smi": "echo 'GPU 0: NVIDIA L4 (UUID: GPU-1)'",
    }.items():
        program(programs, name, body)
    agent(programs, "claude", version="echo 2.1.0", flags="echo --print --model")
    agent(programs, "codex", version="echo codex-cli 0.166.0", flags="echo --print")
    (folder / "home").mkdir()
    return {"PATH": str(programs), "HOME": str(folder / "home"), "FORGE_TOKEN": "hush"}


async def test_detection_finds_the_tools_engines_and_credentials_that_respond(
    tmp_path: Path,
) -> None:
    known = {"forge": Credential(("FORGE_TOKEN",)), "cloud": Credential((), (".cloud",))}
    detected = await detect(ENGINES, environ=a_machine(tmp_path), credentials=known)
    tokens = detected.tokens
    assert {
        *("node:20.11.1", "python:3.11.7", "java:17.0.15", "go:1.22.1", "rust:1.95.0"),
        *("has:git", "git:2.39.5", "has:figma", "has:npm", "gpu", "gpu:nvidia"),
        *("engine:claude", "claude:2.1.0", "codex:0.166.0", "cred:forge"),
    } <= tokens
    assert (
        not {
            *("has:docker", "has:pnpm", "has:yarn", "has:make", "has:xcode"),
            *("engine:codex", "cred:cloud"),
        }
        & tokens
    )
    for required in ("node>=20", "cpus>=1", "python>=3.11", "gpu", "os:any", "arch", "os"):
        assert meets(required, tokens), required


async def test_detected_machine_encodes_as_a_heartbeat_without_secrets(tmp_path: Path) -> None:
    environ = a_machine(tmp_path)
    (tmp_path / "repos" / "notes" / ".git").mkdir(parents=True)
    detected = await detect(
        ENGINES, environ=environ, repo_base=tmp_path / "repos", seats={"claude": 3}
    )
    result = {
        "factoryId": "mac-1",
        "instanceId": "1",
        "os": detected.os,
        "capabilities": detected.capabilities,
        "repos": detected.repos,
        "engines": {name: found.to_engine_seats for name, found in detected.engines.items()},
    }
    heartbeat = msgspec.json.encode(result)
    assert b"hush" not in heartbeat
    factory = msgspec.json.decode(heartbeat, type=HeartbeatDoc).to_domain(NOON)
    assert factory.repos == ("notes",)
    assert factory.engines["claude"].seats == 3
    assert factory.engines["claude"].is_ready(NOON)
    assert "does not offer --model" in (factory.engines["codex"].unavailable or "")


async def test_detection_ends_in_time_when_every_program_hangs(tmp_path: Path) -> None:
    names = [f"tool-{number}" for number in range(20)]
    for name in names:
        program(tmp_path, name, HANGS)
    agent(tmp_path, "claude", version=HANGS, flags=HANGS)
    tools = [KnownTool(name=name) for name in names]
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    detected = await detect({"claude": CLAUDE}, environ=environ, tools=tools, total_s=0.5)
    assert not any(token.startswith("has:") for token in detected.tokens)
    assert detected.engines["claude"].problem is not None


async def test_detection_on_a_bare_machine_finds_only_the_system(tmp_path: Path) -> None:
    environ = {"PATH": "", "HOME": str(tmp_path)}
    detected = await detect(ENGINES, environ=environ, repo_base=tmp_path / "absent")
    assert detected.repos == ()
    assert detected.engines == {}
    assert any(token.startswith("os:") for token in detected.capabilities)


def test_find_checkouts_finds_repos_one_or_two_folders_deep(tmp_path: Path) -> None:
    (tmp_path / "notes" / ".git").mkdir(parents=True)
    (tmp_path / "notes" / "vendored" / ".git").mkdir(parents=True)
    (tmp_path / "owner" / "site" / ".git").mkdir(parents=True)
    worktree = tmp_path / "side"
    worktree.mkdir()
    (worktree / ".git").write_text("gitdir: elsewhere")
    bare = tmp_path / "api.git"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main")
    (tmp_path / "plain" / "deep" / "er" / ".git").mkdir(parents=True)
    (tmp_path / ".hidden" / ".git").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / ("long" * 60) / ".git").mkdir(parents=True)
    assert find_checkouts(tmp_path) == ("api", "notes", "side", "site")
