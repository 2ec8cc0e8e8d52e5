"""The one place that runs programs: starts them, follows what they print, and ends all of them."""

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
from gigafactory.factory.process import orphans as strays
from gigafactory.factory.process.lines import Lines
from gigafactory.factory.process.orphans import Swept
from gigafactory.factory.process.spawn import CannotStart, Child, Program, spawn
from gigafactory.factory.process.stdin import Stdin

__all__ = ["CannotStart", "Ended", "Hearing", "Limits", "Program", "Why", "run"]

READ_BYTES = 64 * 1024
DRAIN_S = 2.0
"""How long what outlives the program may go on printing, and silence when all are dead."""
DRAINS_MAX = 30
KILL_S = 10.0
"""How long a killed process may take to be gone; one that hangs in the system takes for ever."""

Why = Literal["exited", "timeout", "stalled", "stopped"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a program may run, be silent, and take to end when it is told to; None: for ever."""

    wall_s: float | None = None
    stall_s: float | None = None
    grace_s: float = 10.0
    """Between one signal and the next harder one."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, with everything that it had started."""

    exit_code: int
    """Negative for the signal that ended it."""
    why: Why
    wall_s: float
    cpu_s: float
    """Of the program and of those that it waited for."""
    lines_cut: int
    """How many lines were longer than a line may be, and lost their end."""
    strays: Swept = Swept()
    """What had outlived it, and was killed."""
    starved: bool = False
    """Whether something of it was killed for more memory than it may have."""


class Hearing(Protocol):
    """Somebody who follows what a program prints."""

    def line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        """Take a line; what it gives is written to stdin, and empty bytes close that."""
        ...


async def run(
    program: Program,
    limits: Limits,
    hear: Hearing,
    stop: asyncio.Event,
    ladder: Sequence[str] = (),
) -> Ended:
    """Run a program to its end, or to a limit, or until `stop`; nothing of it is alive afterwards.

    It is ended by the signals of `ladder`, by SIGTERM and by SIGKILL, with a grace between; when
    this task is cancelled, by SIGKILL at once. Raises CannotStart, and what `hear` raises.
    """
    child = spawn(program)
    if program.group is not None:
        control_groups.enter(program.group, child.popen.pid)
    running = _Running(child, program, hear)
    why: Why | None = None
    try:
        await running.follow()
        why = await running.watch(limits, stop)
        if why != "exited":
            await running.descend(ladder, limits.grace_s)
    finally:
        await _whatever_happens(running.end(drains=why == "exited"))
    return running.ended(why)


class _Running:
    def __init__(self, child: Child, program: Program, hear: Hearing) -> None:
        self._child = child
        self._program = program
        self._hear = hear
        self._pid = child.popen.pid
        self._loop = asyncio.get_running_loop()
        self._began = self._heard = self._loop.time()
        self._exited = self._loop.create_future()
        self._followers: set[asyncio.Task[None]] = set()
        self._pipes: list[asyncio.ReadTransport] = []
        self._stdin: Stdin | None = None
        self._lines_cut = 0
        self._swept = Swept()
        self._starved = False
        self._wall_s = 0.0
        self._reaped: tuple[int, float] | None = None
        self._unopened = [each for each in (child.stdout, child.stderr, child.stdin) if each]

    async def follow(self) -> None:
        """Begin to read, to write, and to wait for its end."""
        threading.Thread(target=self._await_exit, name=f"exit-of-{self._pid}", daemon=True).start()
        if self._child.stdin is not None:
            self._stdin = await Stdin.open(
                self._child.stdin, self._program.stdin, stays_open=self._program.stdin_open
            )
            self._unopened.remove(self._child.stdin)
        for pipe, stderr in ((self._child.stdout, False), (self._child.stderr, True)):
            reader = await self._open(pipe)
            self._followers.add(self._loop.create_task(self._read(reader, stderr=stderr)))

    async def watch(self, limits: Limits, stop: asyncio.Event) -> Why:
        """Wait until it ends, or for the first reason to end it."""
        stopping = self._loop.create_task(stop.wait())
        try:
            while True:
                due_at = min(self._due(limits).values(), default=None)
                left_s = None if due_at is None else max(0.0, due_at - self._loop.time())
                await self._wait({stopping}, left_s)
                if self._exited.done():
                    return "exited"
                if stopping.done():
                    return "stopped"
                now = self._loop.time()
                for why, at in self._due(limits).items():
                    if at <= now:
                        return why
        finally:
            stopping.cancel()

    def _due(self, limits: Limits) -> dict[Why, float]:
        due: dict[Why, float] = {}
        if limits.wall_s is not None:
            due["timeout"] = self._began + limits.wall_s
        if limits.stall_s is not None:
            due["stalled"] = self._heard + limits.stall_s
        return due

    async def descend(self, ladder: Sequence[str], grace_s: float) -> None:
        """Ask it to end, first gently; what it still prints is heard."""
        for name in (*ladder, "SIGTERM"):
            await self._signal_gently(signal.Signals[name])
            give_up_at = self._loop.time() + grace_s
            while not self._exited.done() and (left_s := give_up_at - self._loop.time()) > 0:
                await self._wait(set(), left_s)
            if self._exited.done():
                return

    async def end(self, *, drains: bool) -> None:
        """Leave nothing behind: no process, no pipe. What outlives it may finish if it `drains`."""
        if not self._exited.done():
            _signal_group(self._pid, signal.SIGKILL)
            await asyncio.wait({self._exited}, timeout=KILL_S)
        self._wall_s = self._loop.time() - self._began
        if drains:
            await asyncio.wait(self._followers, timeout=DRAIN_S)
        # Until it is reaped its number cannot become that of another session.
        self._swept = await strays.sweep(self._program.mark, session=self._pid)
        if self._program.group is not None:
            self._starved = await control_groups.end(self._program.group)
        await self._hear_the_rest()
        self._reap()
        if self._stdin is not None:
            self._stdin.abandon()
        for pipe in self._pipes:
            pipe.close()
        for file in self._unopened:
            file.close()
        for done in await asyncio.gather(*self._followers, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done

    def ended(self, why: Why) -> Ended:
        """What became of it."""
        exit_code, cpu_s = self._reaped or (-signal.SIGKILL, 0.0)
        return Ended(
            exit_code=exit_code,
            why=why,
            wall_s=self._wall_s,
            cpu_s=cpu_s,
            lines_cut=self._lines_cut,
            strays=self._swept,
            starved=self._starved,
        )

    async def _open(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        # The reader stops taking from the pipe at twice its limit: so far, and no further.
        reader = asyncio.StreamReader(limit=READ_BYTES)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._pipes.append(transport)
        self._unopened.remove(pipe)
        return reader

    async def _read(self, reader: asyncio.StreamReader, *, stderr: bool) -> None:
        lines = Lines()
        while data := await reader.read(READ_BYTES):
            self._heard = self._loop.time()
            await self._tell(lines.feed(data), stderr=stderr)
        await self._tell(lines.end(), stderr=stderr)
        self._lines_cut += lines.cut

    async def _tell(self, lines: Iterable[str], *, stderr: bool) -> None:
        for text in lines:
            for answer in self._hear.line(text, stderr=stderr):
                if self._stdin is not None:
                    await self._stdin.say(answer)

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
        if self._program.wraps:
            # The wrapper would die of it and take the real program along without a grace.
            below = await asyncio.to_thread(strays.groups_below, self._pid, self._program.mark)
            groups = below or groups
        for group in groups:
            _signal_group(group, sent)

    async def _hear_the_rest(self) -> None:
        # With all writers dead the pipes end by themselves. One that could not be killed, or was
        # not found, must hold up nobody.
        for _ in range(DRAINS_MAX):
            reading = {each for each in self._followers if not each.done()}
            before = self._heard
            if not reading:
                return
            await asyncio.wait(reading, timeout=DRAIN_S)
            if self._heard == before:
                return

    def _await_exit(self) -> None:
        if sys.platform == "darwin":
            self._reaped = _outcome(*os.wait4(self._pid, 0)[1:])
        else:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop may be gone with all of the factory
            self._loop.call_soon_threadsafe(self._exited.set_result, None)

    def _reap(self) -> None:
        if self._exited.done():
            self._reaped = self._reaped or _outcome(*os.wait4(self._pid, 0)[1:])
        self._child.popen.returncode = self.ended("exited").exit_code


class _Resources(Protocol):
    @property
    def ru_utime(self) -> float: ...
    @property
    def ru_stime(self) -> float: ...


def _outcome(status: int, used: _Resources) -> tuple[int, float]:
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _signal_group(group: int, sent: signal.Signals) -> None:
    # A group of which only the dead are left is no error here.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sent)


async def _whatever_happens(work: Awaitable[None]) -> None:
    """Let it come to its end although the caller is cancelled, even more than once."""
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
