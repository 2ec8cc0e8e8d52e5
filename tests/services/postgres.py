"""PostgreSQL servers for the tests: private, on loopback, and removed afterwards."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.services import postgres_binaries
from tests.services.shared import keep

START_MAX_S = 60.0
STOP_MAX_S = 30.0
SUPERUSER = "postgres"
STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

StopMode = Literal["fast", "immediate"]


def dsn(port: int, database: str = SUPERUSER) -> str:
    """Return the DSN of a database on the server at this port."""
    return f"postgresql://{SUPERUSER}@127.0.0.1:{port}/{database}"


class Server:
    """A PostgreSQL server in its own folder; it keeps its port and data across restarts."""

    def __init__(self, folder: Path, *, programs: Path | None = None, fsync: bool = True) -> None:
        self.folder = folder
        self.port = _free_port()
        self._programs = programs or postgres_binaries.find()
        self._fsync = "on" if fsync else "off"
        self._user = postgres_binaries.server_user()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RuntimeError(f"the PostgreSQL in {self.folder} is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """The server's log output so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def dsn(self, database: str = SUPERUSER) -> str:
        """Return the DSN of a database on this server."""
        return dsn(self.port, database)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        if not (self.folder / "data").exists():
            self._create()
        until = time.monotonic() + START_MAX_S
        # After a kill, a start fails until the old backends have exited.
        while not self._started(until):
            if time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start in {START_MAX_S} s:\n{self.log}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, with a final checkpoint (`fast`) or as in a crash (`immediate`)."""
        self._end(STOPS[mode])

    def kill(self) -> None:
        """Kill the server without a shutdown."""
        self._end(signal.SIGKILL)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it again at the same address."""
        self.stop(mode)
        self.start()

    def _create(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self._make_programs_reachable()
        made = self._spawn(
            *("initdb", "--pgdata", "data", "--username", SUPERUSER, "--auth", "trust"),
            *("--no-locale", "--encoding", "UTF8", "--no-sync", "--no-instructions"),
        )
        if made.wait(START_MAX_S):
            raise RuntimeError(f"PostgreSQL could not be set up in {self.folder}:\n{self.log}")

    def _make_programs_reachable(self) -> None:
        try:
            self._spawn("postgres", "--version").wait(START_MAX_S)
        except PermissionError:
            self._programs = postgres_binaries.copy(self._programs, self.folder / "programs")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Otherwise, Ctrl-C would stop the server before the tests end.
                start_new_session=True,
                user=None if self._user is None else self._user.pw_uid,
                group=None if self._user is None else self._user.pw_gid,
                extra_groups=None if self._user is None else [],
            )

    def _started(self, until: float) -> bool:
        """Start the server; return False if it exits or is not ready in time."""
        self._process = self._spawn(
            *("postgres", "-D", "data", "-h", "127.0.0.1", "-p", str(self.port)),
            *("-k", str(self.folder), "-c", "max_connections=200", "-c", f"fsync={self._fsync}"),
        )
        while time.monotonic() < until and self._process.poll() is None:
            if self._ready():
                return True
            time.sleep(0.02)
        self.kill()
        return False

    def _ready(self) -> bool:
        """Return whether the server's pid file says that it accepts connections."""
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[-1] == "ready"

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def private(*, programs: Path | None = None, fsync: bool = True) -> Iterator[Server]:
    """Run a server for one test, which may stop and kill it."""
    # A socket path is limited to about 100 characters; pytest's folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="aq-pg-"))
    server = Server(folder, programs=programs, fsync=fsync)
    try:
        server.start()
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder)


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Run the shared server of the test run in this folder and yield its port."""
    server = Server(folder)
    try:
        server.start()
        yield str(server.port)
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep("postgres", serve)
