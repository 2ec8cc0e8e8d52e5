"""What a run has left behind, whatever session it moved to: found by its mark, and killed."""

import asyncio
import os
import re
import secrets
import signal
import sys
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gigafactory.factory.process.process_table import MARK_VARIABLE, Process, processes, started

MARK_CHARS_MIN = 16
_MARK = re.compile(rf"[A-Za-z0-9_.-]{{{MARK_CHARS_MIN},}}")
SWEEP_S_MAX = 10.0
"""After so long the rest is told and left: a process may hang in the system for ever."""
LOOK_AGAIN_S = 0.01
EMPTY_LOOKS = 2
"""A process that is just becoming another program shows no environment for a moment."""


class Stray(msgspec.Struct, frozen=True):
    """A process of a run that outlived it."""

    pid: int
    command: str
    started: str


class Swept(msgspec.Struct, frozen=True):
    """What was killed, and what would not die in time."""

    killed: tuple[Stray, ...] = ()
    left: tuple[Stray, ...] = ()


def new_mark() -> str:
    """A token that no other process can carry by chance."""
    return secrets.token_hex(16)


def marked(
    env: Mapping[str, str], mark: str, ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment with the mark in it, before the marks of whatever run we are in ourselves."""
    _check(mark)
    outer = ours.get(MARK_VARIABLE)
    return {**env, MARK_VARIABLE: f"{mark}:{outer}" if outer else mark}


def leftovers(mark: str, session: int | None = None) -> list[Stray]:
    """Whatever is alive of the run with this mark, and of the session that was its own."""
    _check(mark)
    return [
        Stray(each.pid, each.command, each.started)
        for each in belonging(processes(mark), session, spared=_ourselves())
    ]


def belonging(
    table: Iterable[Process], session: int | None, *, spared: Collection[int] = ()
) -> list[Process]:
    """Those with the mark, those of the session, and all descendants of both."""
    others = [each for each in table if each.pid not in spared]
    found = {
        each.pid
        for each in others
        if each.marked or (session is not None and session in {each.session, each.group, each.pid})
    }
    grown = True
    while grown:
        born = {each.pid for each in others if each.parent in found} - found
        found |= born
        grown = bool(born)
    return [each for each in others if each.pid in found]


def groups_below(pid: int, mark: str) -> set[int]:
    """The process groups that the children of a process are in, beside its own."""
    return {each.group for each in processes(mark) if each.parent == pid} - {pid}


async def sweep(mark: str, session: int | None = None) -> Swept:
    """Kill what is left of a run until nothing is; tells what that was."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + SWEEP_S_MAX
    killed: dict[tuple[int, str], Stray] = {}
    empty = 0
    while True:
        # Reading the whole table can take a while on a busy machine.
        found = await asyncio.to_thread(leftovers, mark, session)
        empty = 0 if found else empty + 1
        if empty == EMPTY_LOOKS:
            return Swept(tuple(killed.values()))
        if loop.time() >= give_up_at:
            return Swept(tuple(killed.values()), tuple(found))
        for stray in found:
            if kill(stray):
                killed[stray.pid, stray.started] = stray
        if found:
            await asyncio.sleep(LOOK_AGAIN_S)


def kill(stray: Stray) -> bool:
    """Kill it, unless its number has passed to another process meanwhile."""
    try:
        return _kill_by_descriptor(stray) if sys.platform == "linux" else _kill_by_number(stray)
    except (ProcessLookupError, PermissionError):
        return False


def _kill_by_number(stray: Stray) -> bool:
    if started(stray.pid) != stray.started:
        return False
    os.kill(stray.pid, signal.SIGKILL)
    return True


def _kill_by_descriptor(stray: Stray) -> bool:
    # A descriptor stays with its process, so nothing can slip in between the look and the kill.
    descriptor = os.pidfd_open(stray.pid)
    try:
        if started(stray.pid) != stray.started:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
    return True


def _ourselves() -> set[int]:
    return {0, 1, os.getpid(), os.getppid()}


def _check(mark: str) -> None:
    # A short mark could be somebody else's, and everything that carries it is killed.
    if not _MARK.fullmatch(mark):
        raise ValueError(f"a mark has {MARK_CHARS_MIN} or more letters and digits, not {mark!r}")
