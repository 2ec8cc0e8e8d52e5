"""Where coordinators of the tests come from: one process has all modules in memory, and forks.

A start takes a tenth of the time that way, so that a test can afford many deaths. What is forked
is the real program, in a process of its own, which ends at the latest with the tests.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
START_MAX_S = 60.0
LOOK_EVERY_S = 0.005
PRELOADED = (
    "gigafactory.cli.serve.serve",
    "gigafactory.wiring.factory_process",
    "gigafactory.server.server",
    "gigafactory.store.postgres.store",
    "gigafactory.store.sqlite.store",
    "litestar.plugins.pydantic",
    "tests.support.crash.kill_points",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""What a coordinator or a factory imports, at the latest when it is asked for the first time."""


class Child(NamedTuple):
    """A program that was started, and the first line that it said; empty when it died before."""

    pid: int
    said: str


class Nursery:
    """The tests' side: asks for children, and for how they ended."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._turn = Lock()

    def start(
        self,
        *typed: str,
        folder: Path,
        environ: Mapping[str, str],
        at: str | None = None,
        ahead: float = 0.0,
    ) -> Child:
        """Run `aq` as it is typed in a folder; comes back with its first line, or its end."""
        asked = {"typed": typed, "at": at, "ahead": ahead, "folder": str(folder)}
        return Child(*self._ask(asked | {"environ": dict(environ)}))

    def ended(self, pid: int, *, within_s: float) -> int | None:
        """How a child ended, as subprocess tells it; None when it still lives after so long."""
        code: int | None = self._ask({"pid": pid, "within": within_s})
        return code

    def _ask(self, asked: object) -> Any:  # noqa: ANN401 - plain JSON values
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery for this block; whatever it has started is gone afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.services.nursery"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield Nursery(process)


class _Family:
    """The nursery's side: the children that are alive."""

    def __init__(self) -> None:
        self._alive: dict[int, int] = {}
        self._gone: dict[int, int] = {}

    def answer(self, asked: dict[str, Any]) -> object:
        if "pid" in asked:
            return self._ended(asked["pid"], time.monotonic() + asked["within"])
        return self._start(asked)

    def _start(self, asked: dict[str, Any]) -> tuple[int, str]:
        said, say = os.pipe()
        pid = os.fork()
        if not pid:
            _become(asked, say)
        os.close(say)
        self._alive[pid] = said
        return pid, _first_line(said)

    def _ended(self, pid: int, until: float) -> int | None:
        while pid in self._alive:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                os.close(self._alive.pop(pid))
                self._gone[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                return None
            else:
                time.sleep(LOOK_EVERY_S)
        return self._gone[pid]

    def end(self) -> None:
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _become(asked: dict[str, Any], say: int) -> None:
    """Be the program from here on."""
    from tests.support.crash import kill_points

    code = 1
    try:
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environ"])
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (say, 1), (log, 2)):
            os.dup2(source, target)
        code = kill_points.run(asked["typed"], at=asked["at"], ahead=asked["ahead"])
    finally:
        sys.stdout.flush()
        os._exit(code)


def _first_line(said: int) -> str:
    until = time.monotonic() + START_MAX_S
    line = b""
    while not line.endswith(b"\n") and select.select([said], [], [], until - time.monotonic())[0]:
        piece = os.read(said, 4096)
        if not piece:
            return ""
        line += piece
    return line.decode()


def main() -> None:
    """Serve one test process until it hangs up."""
    for module in PRELOADED:
        # Some are imported only where another library is there too.
        with suppress(ImportError):
            import_module(module)
    family = _Family()
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(family.answer(json.loads(line))) + "\n")
            sys.stdout.flush()
    finally:
        family.end()


if __name__ == "__main__":
    main()
