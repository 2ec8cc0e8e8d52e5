"""Checks that a sandbox works by attempting what must fail in it."""

import asyncio
import contextlib
import itertools
import os
import secrets
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.process.process import CannotStart, ProcessLimits, Program, run
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.confinement import SandboxTool, confine
from gigafactory.factory.sandbox.egress import Egress

PROBE_S = 30.0
ENTRIES_MAX = 50
DATA_FILES = ("admin.token", "fleet.db", "server.url", "factory/token")
HOME_FILES = (
    *(".netrc", ".git-credentials", ".npmrc", ".pypirc", ".docker/config.json", ".kube/config"),
    *(".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".cargo/credentials.toml"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json"),
    *(".local/share/uv/credentials/credentials.toml", ".local/share/opencode/auth.json"),
)

ATTEMPTS = """
import os, pathlib, socket, sys
inside, outside, port = sys.argv[1:]
secrets = sys.stdin.buffer.read().split(b"\\0")
def tried(name, attempt):
    try:
        print(name, "done" if attempt() else "failed", flush=True)
    except (OSError, KeyError):
        print(name, "failed", flush=True)
def write(folder):
    return pathlib.Path(folder, "written").write_text("x")
def connect():
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
        return True
def proxy():
    host, _, at = os.environ["HTTPS_PROXY"].rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(at)), timeout=5) as asked:
        asked.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n".encode())
        return b" 200 " in asked.recv(100)
def environ():
    entries = open("/proc/1/environ", "rb").read().split(b"\\0")
    return {entry.partition(b"=")[0] for entry in entries} - {b"", b"AQ_RUN"}
def read():
    for secret in secrets:
        try:
            with open(secret, "rb") as file:
                if file.read(1):
                    print("visible", repr(secret), flush=True)
                    return True
        except OSError:
            pass
tried("inside", lambda: write(inside))
tried("outside", lambda: write(outside))
tried("secret", read)
tried("connection", connect)
tried("proxy", proxy)
tried("kernel", lambda: open("/proc/sys/kernel/core_pattern", "a"))
tried("environment", environ)
"""

FAULTS = {
    "outside": "a program in it can write outside its worktree",
    "secret": "a program in it can read hidden files",
    "environment": "a program in it can read the environment of the process that started it",
    "kernel": "a program in it can change kernel settings",
    "connection": "a program in it can connect to the network",
    "proxy": "its proxy lets a program reach a host that is not allowed",
}


class Exposure(msgspec.Struct, frozen=True):
    """What every run of a factory is shown, and what it must not be able to read."""

    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    secrets: tuple[Path, ...] = ()
    """Real files of this machine."""


async def probe(
    tool: SandboxTool,
    *,
    network: bool,
    exposure: Exposure = Exposure(),  # noqa: B008 - frozen
) -> str | None:
    """Return None if the sandbox holds, else what it lets through or why it does not start."""
    with tempfile.TemporaryDirectory(prefix="aq-probe-") as name:
        folder = _make_folder(name)
        listener = await asyncio.start_server(_hang_up, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            lines = await _attempt(tool, folder, port, network=network, exposure=exposure)
    return evaluate(lines, network=network)


def find_secrets(home: Path, data: Path) -> tuple[Path, ...]:
    """Return files of this machine that no run may read: tokens, keys, the database."""
    candidates = [data / name for name in DATA_FILES] + [home / name for name in HOME_FILES]
    for folder in (data, home, home / ".ssh", home / ".aws", home / ".gnupg"):
        with contextlib.suppress(OSError):
            entries = itertools.islice(folder.iterdir(), ENTRIES_MAX)
            candidates += [entry for entry in entries if entry.is_file()]
    return tuple(dict.fromkeys(each for each in candidates if _is_readable(each)))


def _is_readable(file: Path) -> bool:
    return file.is_file() and os.access(file, os.R_OK)


def _make_folder(name: str) -> Path:
    folder = Path(name).resolve()
    for part in ("inside", "outside", "hidden"):
        (folder / part).mkdir()
    (folder / "hidden" / "secret").write_text(secrets.token_hex(16))
    return folder


def evaluate(heard: Iterable[str], *, network: bool) -> str | None:
    """Return the first fault that the output of the attempts shows, or None."""
    lines = list(heard)
    answers = dict(
        line.split(" ", 1) for line in lines if line.split(" ", 1)[0] in {"inside", *FAULTS}
    )
    if answers.keys() != {"inside", *FAULTS}:
        return "a program does not start in it: " + (
            " / ".join(lines)[:500] or "it printed nothing"
        )
    if answers["inside"] != "done":
        return "a program in it cannot write to its own worktree"
    checked = [name for name in FAULTS if not (network and name == "connection")]
    fault = next((name for name in checked if answers[name] == "done"), None)
    if fault is None:
        return None
    visible_line = next((line for line in lines if line.startswith("visible ")), "")
    return FAULTS[fault] + (
        f": {visible_line.partition(' ')[2]}" if fault == "secret" and visible_line else ""
    )


async def _attempt(
    tool: SandboxTool, folder: Path, port: int, *, network: bool, exposure: Exposure
) -> list[str]:
    output = _Output()
    hidden = folder / "hidden"
    program = Program(
        argv=(
            *(sys.executable, "-I", "-S", "-c", ATTEMPTS),
            *(str(folder / "inside"), str(folder / "outside"), str(port)),
        ),
        cwd=folder / "inside",
        env={"PATH": "/usr/bin:/bin"},
        mark=new_mark(),
        stdin=b"\0".join(bytes(each) for each in (hidden / "secret", *exposure.secrets)),
    )
    seen = view.build_mounts(
        program,
        writable=[folder / "inside"],
        readable=[*exposure.readable, folder / "outside"],
        needed=[Path(sys.prefix), Path(sys.base_prefix)],
        hidden=[*exposure.hidden, hidden],
    )
    try:
        async with confine(tool, program, seen, egress=None if network else Egress()) as wrapped:
            await run(wrapped, ProcessLimits(wall_s=PROBE_S, grace_s=1.0), output, asyncio.Event())
    except CannotStart as cannot:
        return [str(cannot)]
    return output.lines


class _Output:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_line(self, text: str, *, stderr: bool) -> tuple[bytes, ...]:
        del stderr
        self.lines.append(text)
        return ()


def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
