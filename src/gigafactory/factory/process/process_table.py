"""The processes of this machine, and which of them carry a mark in their environment."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

MARK_VARIABLE = "AQ_RUN"
COMMAND_CHARS_MAX = 200
PS_S = 10.0

_PS = ("ps", "-axww", "-o", "pid=,ppid=,pgid=,stat=,lstart=,command=")
_PS_ENVIRONMENT = ("ps", "-axEww", "-o", "pid=,command=")
_PS_FIELDS = 10
"""pid, ppid, pgid, stat, the five words of lstart, and the command."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A live process at one moment."""

    pid: int
    parent: int
    group: int
    session: int | None
    """None where the system does not provide it."""
    started: str
    """Start time as the system writes it: with the pid it identifies a process for ever."""
    command: str
    marked: bool


def list_processes(mark: str) -> list[Process]:
    """Return all live processes that are visible to us."""
    return list(_linux(mark)) if sys.platform == "linux" else _ps(mark)


def start_time(pid: int) -> str | None:
    """Return the start time of the process with this pid; None if there is none."""
    if sys.platform == "linux":
        stat = _stat(pid)
        return stat.started if stat else None
    else:  # noqa: RET505 - a type checker knows platforms by their branches
        return next((each.started for each in _ps("") if each.pid == pid), None)


class ProcessStat(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `/proc/<pid>/stat`."""

    parent: int
    group: int
    session: int
    started: str
    dead: bool


def parse_stat(text: bytes) -> ProcessStat:
    """Parse `/proc/<pid>/stat`; the command in it may contain blanks and brackets."""
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(
        dead=fields[0] in {b"Z", b"X", b"x"},
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19].decode(),
    )


def parse_ps(listing: str, with_environment: str, mark: str) -> list[Process]:
    """Parse the output of `ps`: plain, and with each environment after its command."""
    wanted = f" {MARK_VARIABLE}="
    carrying = {
        words[0]
        for words in (line.split(maxsplit=1) for line in with_environment.splitlines())
        if len(words) > 1 and any(_names(value, mark) for value in words[1].split(wanted)[1:])
    }
    return [
        Process(
            pid=int(fields[0]),
            parent=int(fields[1]),
            group=int(fields[2]),
            session=None,
            started=" ".join(fields[4:9]),
            command=fields[9][:COMMAND_CHARS_MAX],
            marked=fields[0] in carrying,
        )
        for fields in (line.split(maxsplit=_PS_FIELDS - 1) for line in listing.splitlines())
        if len(fields) == _PS_FIELDS and not fields[3].startswith("Z")
    ]


def has_mark(environ: bytes, mark: str) -> bool:
    """Return whether an environment block, as in `/proc/<pid>/environ`, has this mark."""
    name = f"{MARK_VARIABLE}=".encode()
    return any(
        _names(entry[len(name) :].decode("utf-8", "replace"), mark)
        for entry in environ.split(b"\0")
        if entry.startswith(name)
    )


def _names(value: str, mark: str) -> bool:
    marks = value.split(maxsplit=1)[0].split(":") if value.strip() else []
    return bool(mark) and mark in marks


def _linux(mark: str) -> Iterator[Process]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone, of hundreds of processes
        if not name.isdecimal():
            continue
        pid = int(name)
        stat = _stat(pid)
        if stat is None or stat.dead:
            continue
        yield Process(
            pid=pid,
            parent=stat.parent,
            group=stat.group,
            session=stat.session,
            started=stat.started,
            command=_command(pid),
            marked=has_mark(_read(pid, "environ"), mark),
        )


def _stat(pid: int) -> ProcessStat | None:
    text = _read(pid, "stat")
    return parse_stat(text) if text else None


def _command(pid: int) -> str:
    words = _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return words[:COMMAND_CHARS_MAX]


def _read(pid: int, name: str) -> bytes:
    # The process may end at any moment, or belong to another user: then there is nothing to see.
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _ps(mark: str) -> list[Process]:
    return parse_ps(_output(_PS), _output(_PS_ENVIRONMENT), mark)


def _output(argv: tuple[str, ...]) -> str:
    # A `ps` that cannot show environments fails; then the process tree must do.
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
