"""Trying whether a sandbox holds: what must fail in it is really tried."""

import asyncio
import secrets
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.process.process import CannotStart, Limits, Program, run
from gigafactory.factory.sandbox import filesystem as view
from gigafactory.factory.sandbox.confinement import Tool, confined
from gigafactory.factory.sandbox.egress import WaysOut

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
    "outside": "a program in it can write outside of its worktree",
    "secret": "a program in it can read what is hidden",
    "environment": "a program in it can read the environment of whoever started it",
    "kernel": "a program in it can change settings of the kernel",
    "connection": "a program in it can connect to the outside",
    "proxy": "its proxy leads a program to what is not allowed",
}


async def probe(tool: Tool, *, network: bool) -> str | None:
    """None when it holds, else what it lets through, or why it does not start."""
    with tempfile.TemporaryDirectory(prefix="aq-probe-") as name:
        folder = _prepared(name)
        listener = await asyncio.start_server(_hang_up, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            heard = await _attempt(tool, folder, port, network=network)
    return judged(heard, network=network)


def _prepared(name: str) -> Path:
    folder = Path(name).resolve()
    for part in ("inside", "outside", "hidden"):
        (folder / part).mkdir()
    (folder / "hidden" / "secret").write_text(secrets.token_hex(16))
    return folder


def judged(heard: Iterable[str], *, network: bool) -> str | None:
    """What the attempts say of a sandbox."""
    lines = list(heard)
    said = dict(
        line.split(" ", 1) for line in lines if line.split(" ", 1)[0] in {"inside", *FAULTS}
    )
    if said.keys() != {"inside", *FAULTS}:
        return "a program does not start in it: " + (" / ".join(lines)[:500] or "it said nothing")
    if said["inside"] != "done":
        return "a program in it cannot write to its own worktree"
    checked = [name for name in FAULTS if not (network and name == "connection")]
    return next((FAULTS[name] for name in checked if said[name] == "done"), None)


async def _attempt(tool: Tool, folder: Path, port: int, *, network: bool) -> list[str]:
    heard = _Heard()
    paths = (folder / "inside", folder / "outside", folder / "hidden" / "secret")
    program = Program(
        argv=(sys.executable, "-I", "-S", "-c", ATTEMPTS, *map(str, paths), str(port)),
        cwd=folder / "inside",
        env={"PATH": "/usr/bin:/bin"},
        mark=new_mark(),
    )
    seen = view.places(
        writable=[folder / "inside"],
        readable=[Path(sys.prefix), Path(sys.base_prefix), folder / "outside"],
        hidden=[folder / "hidden"],
    )
    try:
        async with confined(tool, program, seen, ways=None if network else WaysOut()) as wrapped:
            await run(wrapped, Limits(wall_s=PROBE_S, grace_s=1.0), heard, asyncio.Event())
    except CannotStart as cannot:
        return [str(cannot)]
    return heard.lines


class _Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str, *, stderr: bool) -> tuple[bytes, ...]:
        del stderr
        self.lines.append(text)
        return ()


def _hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
