"""A fork server: a process that has the modules of `aq` loaded and forks for each start.

This makes a start ten times faster. Each child is the real program in a separate process.
All children end with the tests at the latest.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).parents[2]
START_MAX_S = 60.0
PRELOADED = (
    "gigafactory.cli.jobs.submit",
    "gigafactory.cli.serve.serve",
    "gigafactory.server.server",
    "gigafactory.store.postgres.store",
    "gigafactory.store.sqlite.store",
    "gigafactory.wiring.factory_process",
    "gigafactory.wiring.folder_process",
    "litestar.plugins.pydantic",
    "tests.support.crash.kill_points",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""Modules that the program imports at startup or on its first request."""
LENGTH_BYTES = 4
FDS = 4
"""File descriptors per request: stdin, stdout, stderr, and a pipe for pid and exit code."""


class Child(NamedTuple):
    """A started program and its first line of output, empty if it ended without output."""

    pid: int
    first_line: str


class ForkServer:
    """The client in the test process: starts children and waits for them."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._turn = Lock()
        self._status: dict[int, IO[bytes]] = {}
        self._outputs: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._turns: dict[int, Lock] = {}

    def start(
        self,
        *typed: str,
        folder: Path,
        environ: Mapping[str, str],
        at: str | None = None,
        ahead: float = 0.0,
    ) -> Child:
        """Start `aq` in a folder, with stderr in the file `log`; return after its first line."""
        reader, writer = os.pipe()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with (
            Path(os.devnull).open("rb") as nothing,
            os.fdopen(os.open(folder / "log", flags, 0o600), "wb") as log,
            os.fdopen(writer, "wb") as output,
        ):
            files = nothing.fileno(), output.fileno(), log.fileno()
            pid = self.spawn(
                *typed, folder=folder, environ=environ, files=files, at=at, ahead=ahead
            )
        # The pipe stays open so that the program can print more without an error.
        self._outputs[pid] = reader
        return Child(pid, _first_line(reader))

    def run(
        self, *typed: str, folder: Path, environ: Mapping[str, str], stdin: bytes, within_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run `aq` in a folder until it ends; return its exit code, output and errors."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.seek(0)
            files = given.fileno(), out.fileno(), err.fileno()
            pid = self.spawn(*typed, folder=folder, environ=environ, files=files)
            code = self.wait(pid, within_s=within_s)
            if code is None:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["aq", *typed], within_s)
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def spawn(
        self,
        *typed: str,
        folder: Path,
        environ: Mapping[str, str],
        files: tuple[int, int, int],
        at: str | None = None,
        ahead: float = 0.0,
    ) -> int:
        """Start `aq` with these files as its standard input, output and error; return its pid."""
        request = {"typed": typed, "at": at, "ahead": ahead, "folder": str(folder)}
        body = json.dumps(request | {"environ": dict(environ)}).encode()
        reader, writer = os.pipe()
        status = os.fdopen(reader, "rb")
        with self._turn:
            length = len(body).to_bytes(LENGTH_BYTES, "big")
            socket.send_fds(self._control, [length], [*files, writer])
            self._control.sendall(body)
        os.close(writer)
        pid = int(status.readline())
        self._status[pid] = status
        self._turns.setdefault(pid, Lock())
        return pid

    def wait(self, pid: int, *, within_s: float) -> int | None:
        """Return a child's exit code as subprocess does, or None if it is still running."""
        until = time.monotonic() + within_s
        turn = self._turns[pid]
        # Two threads may wait for the same child.
        if not turn.acquire(timeout=within_s):
            return None
        try:
            status = self._status.get(pid)
            if status is not None:
                if not select.select([status], [], [], max(0.0, until - time.monotonic()))[0]:
                    return None
                self._codes[pid] = int(status.readline())
                self._status.pop(pid).close()
                if pid in self._outputs:
                    os.close(self._outputs.pop(pid))
            return self._codes[pid]
        finally:
            turn.release()


@cache
def fork_server() -> ForkServer:
    """Return the fork server of this process; its children end with this process."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.services.fork_server"],
        cwd=ROOT,
        stdin=theirs.fileno(),
        start_new_session=True,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ForkServer(ours)


class _Children:
    """The running children in the server process, each with its status pipe."""

    def __init__(self) -> None:
        self._status: dict[int, int] = {}

    def fork(self, request: dict[str, Any], fds: list[int]) -> None:
        *files, status = fds
        pid = os.fork()
        if not pid:
            _become_aq(request, files)
        for fd in files:
            os.close(fd)
        self._status[pid] = status
        _write(status, pid)

    def reap(self) -> None:
        for pid in list(self._status):
            ended, result = os.waitpid(pid, os.WNOHANG)
            if ended:
                status = self._status.pop(pid)
                _write(status, os.waitstatus_to_exitcode(result))
                os.close(status)

    def kill(self) -> None:
        for pid in self._status:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _write(status: int, number: int) -> None:
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % number)


def _become_aq(request: dict[str, Any], files: list[int]) -> None:
    """Run `aq` in this process and exit."""
    from tests.support.crash import kill_points

    code: object = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environ"])
        time.tzset()
        for target, source in enumerate(files):
            os.dup2(source, target)
        os.closerange(3, max(files) + 1)
        code = kill_points.run(request["typed"], at=request["at"], ahead=request["ahead"])
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            sys.stderr.write(f"{code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _first_line(fd: int) -> str:
    until = time.monotonic() + START_MAX_S
    line = b""
    while not line.endswith(b"\n") and select.select([fd], [], [], until - time.monotonic())[0]:
        piece = os.read(fd, 4096)
        if not piece:
            return ""
        line += piece
    return line.decode()


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next request and its file descriptors, or None at the end of the tests."""
    length, fds, _, _ = socket.recv_fds(control, LENGTH_BYTES, FDS)
    if not length:
        return None
    left = int.from_bytes(length, "big")
    pieces = []
    while left:
        pieces.append(control.recv(left))
        left -= len(pieces[-1])
    return json.loads(b"".join(pieces)), fds


def main() -> None:
    """Serve one test process until it closes the control socket."""
    control = socket.socket(fileno=os.dup(0))
    for module in PRELOADED:
        # Some modules need an optional library that may not be installed.
        with suppress(ImportError):
            import_module(module)
    awake, wake = socket.socketpair()
    os.set_blocking(wake.fileno(), False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children = _Children()
    try:
        while True:
            ready = select.select([control, awake], [], [])[0]
            if awake in ready:
                awake.recv(4096)
                children.reap()
            if control in ready:
                request = _receive(control)
                if request is None:
                    return
                children.fork(*request)
    finally:
        children.kill()


if __name__ == "__main__":
    main()
