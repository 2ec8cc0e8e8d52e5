"""Runs programs: starts them, follows their output, enforces limits, kills all their processes."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Iterable, Sequence
from typing import IO, Literal, Protocol

import msgspec

from gigafactory.factory.process import cgroups as control_groups
from gigafactory.factory.process import orphans
from gigafactory.factory.process.lines import LineSplitter
from gigafactory.factory.process.orphans import KilledOrphans
from gigafactory.factory.process.spawn import CannotStart, ChildProcess, Program, spawn
from gigafactory.factory.process.stdin import Stdin

__all__ = [
    "CannotStart",
    "EndReason",
    "OutputListener",
    "ProcessLimits",
    "ProcessResult",
    "Program",
    "run",
]

READ_BYTES = 64 * 1024
LINES_AT_ONCE = 500
DRAIN_S = 2.0
"""How long processes that outlive the program may print, and the silence that ends reading."""
DRAINS_MAX = 30
KILL_S = 10.0
"""How long a killed process may take to disappear; one that hangs in the kernel never does."""

EndReason = Literal["exited", "timeout", "stalled", "stopped"]


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a program may run, be silent, and take to end after a signal; None: for ever."""

    wall_s: float | None = None
    stall_s: float | None = None
    grace_s: float = 10.0
    """Between one signal and the next stronger one."""


class ProcessResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, with everything that it had started."""

    exit_code: int
    """Negative: the signal that ended it."""
    reason: EndReason
    wall_s: float
    cpu_s: float
    """Of the program and of the children that it waited for."""
    lines_cut: int
    """The number of overlong lines that were cut."""
    orphans: KilledOrphans = KilledOrphans()
    """Processes that had outlived it and were killed."""
    out_of_memory: bool = False
    """Whether the kernel killed a process of it for exceeding the memory limit."""


class OutputListener(Protocol):
    """Receives the output of a program."""

    def on_line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        """Take a line; the returned bytes are written to stdin, and empty bytes close it."""
        ...


async def run(
    program: Program,
    limits: ProcessLimits,
    listener: OutputListener,
    stop: asyncio.Event,
    signals: Sequence[str] = (),
) -> ProcessResult:
    """Run a program until it ends, hits a limit or `stop` is set; then none of its processes live.

    It is stopped by `signals`, SIGTERM and SIGKILL, with a grace period between; if this task is
    cancelled, by SIGKILL at once. Raises CannotStart, and what `listener` raises.
    """
    child = spawn(program)
    if program.cgroup is not None:
        control_groups.add_process(program.cgroup, child.popen.pid)
    running = _Running(child, program, listener)
    why: EndReason | None = None
    try:
        await running.follow()
        why = await running.watch(limits, stop)
        if why != "exited":
            await running.stop(signals, limits.grace_s)
    finally:
        await _complete(running.kill(drains=why == "exited"))
    return running.result(why)


class _Running:
    def __init__(self, child: ChildProcess, program: Program, listener: OutputListener) -> None:
        self._child = child
        self._program = program
        self._listener = listener
        self._pid = child.popen.pid
        self._loop = asyncio.get_running_loop()
        self._began = self._last_output = self._loop.time()
        self._exited = self._loop.create_future()
        self._followers: set[asyncio.Task[None]] = set()
        self._pipes: list[asyncio.ReadTransport] = []
        self._stdin: Stdin | None = None
        self._lines_cut = 0
        self._swept = KilledOrphans()
        self._stalled = False
        self._wall_s = 0.0
        self._reaped: tuple[int, float] | None = None
        self._unopened = [each for each in (child.stdout, child.stderr, child.stdin) if each]

    async def follow(self) -> None:
        """Start reading, writing, and waiting for the exit."""
        threading.Thread(target=self._await_exit, name=f"exit-of-{self._pid}", daemon=True).start()
        if self._child.stdin is not None:
            self._stdin = await Stdin.open(
                self._child.stdin, self._program.stdin, stays_open=self._program.stdin_open
            )
            self._unopened.remove(self._child.stdin)
        for pipe, stderr in ((self._child.stdout, False), (self._child.stderr, True)):
            reader = await self._open(pipe)
            self._followers.add(self._loop.create_task(self._read(reader, stderr=stderr)))

    async def watch(self, limits: ProcessLimits, stop: asyncio.Event) -> EndReason:
        """Wait until it ends, or for the first reason to stop it."""
        stopping = self._loop.create_task(stop.wait())
        try:
            while True:
                due_at = min(self._deadlines(limits).values(), default=None)
                left_s = None if due_at is None else max(0.0, due_at - self._loop.time())
                await self._wait({stopping}, left_s)
                if self._exited.done():
                    return "exited"
                if stopping.done():
                    return "stopped"
                now = self._loop.time()
                for why, at in self._deadlines(limits).items():
                    if at <= now:
                        return why
        finally:
            stopping.cancel()

    def _deadlines(self, limits: ProcessLimits) -> dict[EndReason, float]:
        due: dict[EndReason, float] = {}
        if limits.wall_s is not None:
            due["timeout"] = self._began + limits.wall_s
        if limits.stall_s is not None:
            due["stalled"] = self._last_output + limits.stall_s
        return due

    async def stop(self, signals: Sequence[str], grace_s: float) -> None:
        """Signal it, gently first; its output is still read."""
        for name in (*signals, "SIGTERM"):
            await self._signal_gently(signal.Signals[name])
            give_up_at = self._loop.time() + grace_s
            while not self._exited.done() and (left_s := give_up_at - self._loop.time()) > 0:
                await self._wait(set(), left_s)
            if self._exited.done():
                return

    async def kill(self, *, drains: bool) -> None:
        """Kill all processes and close all pipes; with `drains`, what outlives it may finish."""
        if not self._exited.done():
            _signal_group(self._pid, signal.SIGKILL)
            await asyncio.wait({self._exited}, timeout=KILL_S)
        self._wall_s = self._loop.time() - self._began
        if drains:
            await asyncio.wait(self._followers, timeout=DRAIN_S)
        # Until it is reaped, its pid cannot become that of another session.
        self._swept = await orphans.kill_orphans(self._program.mark, session=self._pid)
        if self._program.cgroup is not None:
            self._stalled = await control_groups.kill_and_remove(self._program.cgroup)
        await self._read_rest()
        self._reap()
        if self._stdin is not None:
            self._stdin.abort()
        for pipe in self._pipes:
            pipe.close()
        for file in self._unopened:
            file.close()
        for done in await asyncio.gather(*self._followers, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done

    def result(self, why: EndReason) -> ProcessResult:
        """Return how it ended."""
        exit_code, cpu_s = self._reaped or (-signal.SIGKILL, 0.0)
        return ProcessResult(
            exit_code=exit_code,
            reason=why,
            wall_s=self._wall_s,
            cpu_s=cpu_s,
            lines_cut=self._lines_cut,
            orphans=self._swept,
            out_of_memory=self._stalled,
        )

    async def _open(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        # The reader stops taking from the pipe at twice its limit, which bounds the memory.
        reader = asyncio.StreamReader(limit=READ_BYTES)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._pipes.append(transport)
        self._unopened.remove(pipe)
        return reader

    async def _read(self, reader: asyncio.StreamReader, *, stderr: bool) -> None:
        lines = LineSplitter()
        while data := await reader.read(READ_BYTES):
            self._last_output = self._loop.time()
            await self._pass_on(lines.feed(data), stderr=stderr)
        await self._pass_on(lines.finish(), stderr=stderr)
        self._lines_cut += lines.cut

    async def _pass_on(self, lines: Iterable[str], *, stderr: bool) -> None:
        for number, text in enumerate(lines, 1):
            for answer in self._listener.on_line(text, stderr=stderr):
                if self._stdin is not None:
                    await self._stdin.write(answer)
            if number % LINES_AT_ONCE == 0:
                # A chunk of empty lines would hold up all other runs.
                await asyncio.sleep(0)

    async def _wait(
        self, others: set[asyncio.Task[Literal[True]]], timeout_s: float | None
    ) -> None:
        self._check_followers()
        reading = {each for each in self._followers if not each.done()}
        await asyncio.wait(
            {self._exited, *others, *reading},
            timeout=timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        self._check_followers()

    def _check_followers(self) -> None:
        for each in self._followers:
            if each.done():
                each.result()

    async def _signal_gently(self, sent: signal.Signals) -> None:
        groups = {self._pid}
        if self._program.is_wrapper:
            # The wrapper would die of the signal and take the real program along without a grace
            # period.
            below = await asyncio.to_thread(orphans.child_groups, self._pid, self._program.mark)
            groups = below or groups
        for group in groups:
            _signal_group(group, sent)

    async def _read_rest(self) -> None:
        # When all writers are dead, the pipes end by themselves. A process that could not be killed
        # or found must not block this.
        for _ in range(DRAINS_MAX):
            reading = {each for each in self._followers if not each.done()}
            before = self._last_output
            if not reading:
                return
            await asyncio.wait(reading, timeout=DRAIN_S)
            if self._last_output == before:
                return

    def _await_exit(self) -> None:
        if sys.platform == "darwin":
            self._reaped = _outcome(*os.wait4(self._pid, 0)[1:])
        else:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the event loop may be closed already
            self._loop.call_soon_threadsafe(self._exited.set_result, None)

    def _reap(self) -> None:
        if self._exited.done():
            self._reaped = self._reaped or _outcome(*os.wait4(self._pid, 0)[1:])
        self._child.popen.returncode = self.result("exited").exit_code


class _Resources(Protocol):
    @property
    def ru_utime(self) -> float: ...
    @property
    def ru_stime(self) -> float: ...


def _outcome(status: int, used: _Resources) -> tuple[int, float]:
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _signal_group(group: int, sent: signal.Signals) -> None:
    # A group in which only zombies are left is not an error.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sent)


async def _complete(work: Awaitable[None]) -> None:
    """Complete `work` even if the caller is cancelled, once or more."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
