"""Checks that a sandbox works by attempting what must fail in it."""

import asyncio
import secrets
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.process.process import CannotStart, ProcessLimits, Program, run
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.confinement import SandboxTool, confine
from gigafactory.factory.sandbox.egress import Egress

PROBE_S = 30.0

ATTEMPTS = """
import os, pathlib, socket, sys
inside, outside, secret, port = sys.argv[1:]
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
tried("inside", lambda: write(inside))
tried("outside", lambda: write(outside))
tried("secret", lambda: pathlib.Path(secret).read_text())
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


async def probe(tool: SandboxTool, *, network: bool) -> str | None:
    """Return None if the sandbox holds, else what it lets through or why it does not start."""
    with tempfile.TemporaryDirectory(prefix="aq-probe-") as name:
        folder = _make_folder(name)
        listener = await asyncio.start_server(_hang_up, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            heard = await _attempt(tool, folder, port, network=network)
    return evaluate(heard, network=network)


def _make_folder(name: str) -> Path:
    folder = Path(name).resolve()
    for part in ("inside", "outside", "hidden"):
        (folder / part).mkdir()
    (folder / "hidden" / "secret").write_text(secrets.token_hex(16))
    return folder


def evaluate(heard: Iterable[str], *, network: bool) -> str | None:
    """Return the first fault that the output of the attempts shows, or None."""
    lines = list(heard)
    said = dict(
        line.split(" ", 1) for line in lines if line.split(" ", 1)[0] in {"inside", *FAULTS}
    )
    if said.keys() != {"inside", *FAULTS}:
        return "a program does not start in it: " + (
            " / ".join(lines)[:500] or "it printed nothing"
        )
    if said["inside"] != "done":
        return "a program in it cannot write to its own worktree"
    checked = [name for name in FAULTS if not (network and name == "connection")]
    return next((FAULTS[name] for name in checked if said[name] == "done"), None)


async def _attempt(tool: SandboxTool, folder: Path, port: int, *, network: bool) -> list[str]:
    heard = _Output()
    paths = (folder / "inside", folder / "outside", folder / "hidden" / "secret")
    program = Program(
        argv=(sys.executable, "-I", "-S", "-c", ATTEMPTS, *map(str, paths), str(port)),
        cwd=folder / "inside",
        env={"PATH": "/usr/bin:/bin"},
        mark=new_mark(),
    )
    seen = view.resolve_mounts(
        writable=[folder / "inside"],
        readable=[Path(sys.prefix), Path(sys.base_prefix), folder / "outside"],
        hidden=[folder / "hidden"],
    )
    try:
        async with confine(tool, program, seen, egress=None if network else Egress()) as wrapped:
            await run(wrapped, ProcessLimits(wall_s=PROBE_S, grace_s=1.0), heard, asyncio.Event())
    except CannotStart as cannot:
        return [str(cannot)]
    return heard.lines


class _Output:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_line(self, text: str, *, stderr: bool) -> tuple[bytes, ...]:
        del stderr
        self.lines.append(text)
        return ()


def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
