"""A PostgreSQL of the test suite's own: private, on loopback, with nothing left behind."""

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
    """The address of a database of the server that listens on this port."""
    return f"postgresql://{SUPERUSER}@127.0.0.1:{port}/{database}"


class Server:
    """One PostgreSQL server in a folder of its own; its port and its data outlive a stop."""

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
        """All that the server has said so far."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def dsn(self, database: str = SUPERUSER) -> str:
        """The address of one of this server's databases."""
        return dsn(self.port, database)

    def start(self) -> None:
        """Start the server, and come back when it answers."""
        if not (self.folder / "data").exists():
            self._create()
        until = time.monotonic() + START_MAX_S
        # After a kill the server may refuse for a moment, until its old backends have noticed.
        while not self._started(until):
            if time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start in {START_MAX_S} s:\n{self.log}")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, with a last checkpoint (`fast`) or as in a crash (`immediate`)."""
        self._end(STOPS[mode])

    def kill(self) -> None:
        """Take the server away without a word to it."""
        self._end(signal.SIGKILL)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it again, at the same address."""
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
                # An interrupt at the keyboard would stop the server under the tests' feet.
                start_new_session=True,
                user=None if self._user is None else self._user.pw_uid,
                group=None if self._user is None else self._user.pw_gid,
                extra_groups=None if self._user is None else [],
            )

    def _started(self, until: float) -> bool:
        """Start once; False if the server ended instead."""
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
        """Whether the server says, in its own file, that it takes connections."""
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
    """A running server for one test alone, which may stop and kill it as it likes."""
    # A socket's path has room for about a hundred characters, too few for pytest's own folders.
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
    """The run's shared server, in this folder, as the port that it listens on."""
    server = Server(folder)
    try:
        server.start()
        yield str(server.port)
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep("postgres", serve)
