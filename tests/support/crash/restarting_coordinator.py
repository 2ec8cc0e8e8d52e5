"""One coordinator that is killed and restarted on the same data."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.services.aq import environment
from tests.services.fork_server import Child, ForkServer
from tests.support.crash.kill_points import reached_points
from tests.support.polling import until

EXIT_WITHIN_S = 30.0
ALIVE_AFTER_S = 0.1
"""A connection that broke while its process still runs after this time was closed as idle."""


class CoordinatorProcess(NamedTuple):
    """One coordinator process."""

    pid: int
    url: str
    token: str


def _process_of(child: Child) -> CoordinatorProcess:
    status = json.loads(child.first_line)
    return CoordinatorProcess(
        child.pid, status["url"], Path(status["tokenFile"]).read_text().strip()
    )


class RestartingCoordinator:
    """The current coordinator process, and its restarts."""

    def __init__(
        self,
        fork_server: ForkServer,
        folder: Path,
        *,
        store: str | None = None,
        kill_points: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        keeps_port: bool = False,
    ) -> None:
        """Use a folder; each process but the last dies at a kill point (see kill_points)."""
        self.folder = folder
        self.history = folder / "history.jsonl"
        self.kill_points = list(kill_points)
        self.kills = 0
        self._fork_server = fork_server
        self._store = ("--store", store) if store else ()
        self._environ = environment(folder, AQ_DATA=str(folder / "data"), **settings or {})
        self._keeps_port = keeps_port
        self._clock_ahead_s = 0.0
        self._killed_pids: set[int] = set()
        self._restarting = asyncio.Lock()
        self._process: CoordinatorProcess | None = None
        self._log_file = folder / "log"
        self._log_start = 0

    @property
    def process(self) -> CoordinatorProcess:
        """Return the current process."""
        assert self._process is not None, "there is no process before `start`"
        return self._process

    async def start(self) -> None:
        """Start a process; restart it if it dies before it serves."""
        port = self.process.url.rpartition(":")[2] if self._keeps_port and self._process else "0"
        typed = ("serve", "--json", "--port", port, "--history", str(self.history), *self._store)
        while True:
            self._log_start = self._log_file.stat().st_size if self._log_file.exists() else 0
            child = await asyncio.to_thread(
                self._fork_server.start,
                *typed,
                folder=self.folder,
                environ=self._environ,
                at=",".join(self.kill_points) or None,
                ahead=self._clock_ahead_s,
            )
            if child.first_line:
                self._process = _process_of(child)
                return
            await self._expect_killed(child.pid)

    async def wait_for_restart(self, process: CoordinatorProcess) -> None:
        """Wait until a retry makes sense after a connection to this process broke."""
        async with self._restarting:
            if self._process is not process or await self._is_running(process):
                return
            await self._expect_killed(process.pid)
            await self.start()

    async def _is_running(self, process: CoordinatorProcess) -> bool:
        return await self._wait_for_exit(process.pid, ALIVE_AFTER_S) is None

    async def _expect_killed(self, pid: int) -> None:
        """Check that the process was killed at a kill point or by us."""
        code = await self._wait_for_exit(pid, EXIT_WITHIN_S)
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.log}"
        self.kills += 1
        if pid not in self._killed_pids:
            self.kill_points.remove(reached_points(self.history)[-1])

    async def _wait_for_exit(self, pid: int, within_s: float) -> int | None:
        return await asyncio.to_thread(self._fork_server.wait, pid, within_s=within_s)

    async def restart(self, *, clock_ahead_s: float = 0.0) -> None:
        """Kill and restart the process with a clock that is this much ahead."""
        self._clock_ahead_s += clock_ahead_s
        async with self.killed():
            pass

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """Kill the process, and restart it when the block ends."""
        process = self.process
        self._killed_pids.add(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        async with self._restarting:
            if self._process is process:
                await self._expect_killed(process.pid)
                yield
                await self.start()
            else:
                yield

    async def stop(self) -> None:
        """Stop the process, restarting it as often as it is killed, until it exits by itself."""
        while True:
            process = self.process
            if self.kill_points:
                await self._wait_until_leading()
            os.kill(process.pid, signal.SIGTERM)
            if await self._wait_for_exit(process.pid, EXIT_WITHIN_S) == 0:
                return
            await self._expect_killed(process.pid)
            await self.start()

    async def _wait_until_leading(self) -> None:
        """Wait until the process leads, so that a stop has to resign."""
        await until(lambda: b"leading" in self._log_file.read_bytes()[self._log_start :])

    async def end(self) -> None:
        """Kill the process, if any."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await self._wait_for_exit(self._process.pid, EXIT_WITHIN_S)

    @property
    def log(self) -> str:
        """Return the end of the log."""
        return self._log_file.read_text(errors="replace")[-4000:]


@asynccontextmanager
async def running_coordinator(
    coordinator: RestartingCoordinator,
) -> AsyncIterator[RestartingCoordinator]:
    """Run a coordinator for this block."""
    try:
        await coordinator.start()
        yield coordinator
    finally:
        await coordinator.end()
