"""Finds the processes that a run left behind, in any session, by the run's mark, and kills them."""

import asyncio
import os
import re
import secrets
import signal
import sys
from collections.abc import Collection, Iterable, Mapping

import msgspec

from gigafactory.factory.process.process_table import (
    MARK_VARIABLE,
    Process,
    list_processes,
    start_time,
)

MARK_CHARS_MIN = 16
_MARK = re.compile(rf"[A-Za-z0-9_.-]{{{MARK_CHARS_MIN},}}")
KILL_S_MAX = 10.0
"""After this time the remaining processes are reported: one may hang in the kernel for ever."""
LOOK_AGAIN_S = 0.01
EMPTY_LOOKS = 2
"""A process that is just executing another program shows no environment for a moment."""


class Orphan(msgspec.Struct, frozen=True):
    """A process that outlived its run."""

    pid: int
    command: str
    started: str


class KilledOrphans(msgspec.Struct, frozen=True):
    """Orphans that were killed, and those that did not die in time."""

    killed: tuple[Orphan, ...] = ()
    survived: tuple[Orphan, ...] = ()


def new_mark() -> str:
    """Return a token that no other process carries by chance."""
    return secrets.token_hex(16)


def with_mark(
    env: Mapping[str, str], mark: str, ours: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment with the mark added before the marks of enclosing runs."""
    _require_valid(mark)
    outer = ours.get(MARK_VARIABLE)
    return {**env, MARK_VARIABLE: f"{mark}:{outer}" if outer else mark}


def find_orphans(mark: str, session: int | None = None) -> list[Orphan]:
    """Return all live processes of the run with this mark, and of its session."""
    _require_valid(mark)
    return [
        Orphan(each.pid, each.command, each.started)
        for each in select_processes(list_processes(mark), session, spare_pids=_own_pids())
    ]


def select_processes(
    table: Iterable[Process], session: int | None, *, spare_pids: Collection[int] = ()
) -> list[Process]:
    """Return the processes with the mark, those of the session, and all their descendants."""
    others = [each for each in table if each.pid not in spare_pids]
    orphans = {
        each.pid
        for each in others
        if each.marked or (session is not None and session in {each.session, each.group, each.pid})
    }
    changed = True
    while changed:
        children = {each.pid for each in others if each.parent in orphans} - orphans
        orphans |= children
        changed = bool(children)
    return [each for each in others if each.pid in orphans]


def child_groups(pid: int, mark: str) -> set[int]:
    """Return the process groups of the children of a process, without its own."""
    return {each.group for each in list_processes(mark) if each.parent == pid} - {pid}


async def kill_orphans(mark: str, session: int | None = None) -> KilledOrphans:
    """Kill the remaining processes of a run until none is left, and return them."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + KILL_S_MAX
    killed: dict[tuple[int, str], Orphan] = {}
    empty = 0
    while True:
        # Reading the whole process table can take a while on a busy machine.
        orphans = await asyncio.to_thread(find_orphans, mark, session)
        empty = 0 if orphans else empty + 1
        if empty == EMPTY_LOOKS:
            return KilledOrphans(tuple(killed.values()))
        if loop.time() >= give_up_at:
            return KilledOrphans(tuple(killed.values()), tuple(orphans))
        for orphan in orphans:
            if kill_orphan(orphan):
                killed[orphan.pid, orphan.started] = orphan
        if orphans:
            await asyncio.sleep(LOOK_AGAIN_S)


def kill_orphan(orphan: Orphan) -> bool:
    """Kill an orphan, unless its pid now belongs to another process."""
    try:
        return _kill_by_descriptor(orphan) if sys.platform == "linux" else _kill_by_number(orphan)
    except (ProcessLookupError, PermissionError):
        return False


def _kill_by_number(orphan: Orphan) -> bool:
    if start_time(orphan.pid) != orphan.started:
        return False
    os.kill(orphan.pid, signal.SIGKILL)
    return True


def _kill_by_descriptor(orphan: Orphan) -> bool:
    # A descriptor stays with its process, so the pid cannot be reused between check and kill.
    descriptor = os.pidfd_open(orphan.pid)
    try:
        if start_time(orphan.pid) != orphan.started:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
    return True


def _own_pids() -> set[int]:
    return {0, 1, os.getpid(), os.getppid()}


def _require_valid(mark: str) -> None:
    # Every process with the mark is killed, and a short mark could match a foreign one.
    if not _MARK.fullmatch(mark):
        raise ValueError(f"a mark has at least {MARK_CHARS_MIN} letters and digits, not {mark!r}")
