"""A program and its start: exactly its arguments, environment, folder and pipes, nothing inherited.

POSIX only: a run is a session of its own, so that it can be signalled as a whole.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.process.orphans import marked

HANDED = "\0handed"
"""In `argv`, where the number of the descriptor goes that `handed` can be read from."""


class CannotStart(Refused):
    """A program could not be started; nothing has run."""

    code = "cannot_start"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to start."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """All of its environment, but for the mark."""
    mark: str
    """A random token by which everything that it leaves behind is found (`strays.new_mark`)."""
    stdin: bytes = b""
    stdin_open: bool = False
    """Whether stdin stays open for what the hearer answers; else it is closed after `stdin`."""
    handed: bytes | None = None
    """What it can read from one more descriptor, unseen by others."""
    inherited: tuple[int, ...] = ()
    """Descriptors of ours that it has under the same numbers."""
    group: Path | None = None
    """The control group that it is held in, which ends with it."""
    wraps: bool = False
    """Whether it starts the real program in a session of its own: gentle signals are for that."""


class Child(msgspec.Struct, frozen=True):
    """A program that runs, and our ends of its pipes."""

    popen: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    stdin: IO[bytes] | None


def spawn(program: Program) -> Child:
    """Start it.

    Raises CannotStart with a sentence that says what is missing.
    """
    if not program.argv:
        raise CannotStart("cannot start a program: its command is empty")
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        try:
            child = _spawn(program, theirs, ours)
        except (OSError, ValueError) as error:
            raise CannotStart(f"cannot start {program.argv[0]!r}: {_why(program, error)}") from None
        ours.pop_all()
        return child


def _spawn(program: Program, theirs: contextlib.ExitStack, ours: contextlib.ExitStack) -> Child:
    stdout, to_stdout = _pipe(ours, theirs)
    stderr, to_stderr = _pipe(ours, theirs)
    stdin: IO[bytes] | None = None
    from_stdin: int | IO[bytes] = subprocess.DEVNULL
    if program.stdin or program.stdin_open:
        from_stdin, stdin = _pipe(theirs, ours)
    handed = () if program.handed is None else (_handed(program.handed, theirs),)
    # Called in the thread of the loop: a sandbox dies with the thread that started it.
    popen = subprocess.Popen(
        [str(handed[0]) if handed and word == HANDED else word for word in program.argv],
        cwd=program.cwd,
        env=marked(program.env, program.mark),
        stdin=from_stdin,
        stdout=to_stdout,
        stderr=to_stderr,
        pass_fds=(*handed, *program.inherited),
        start_new_session=True,
    )
    return Child(popen, stdout, stderr, stdin)


def _pipe(
    reading: contextlib.ExitStack, writing: contextlib.ExitStack
) -> tuple[IO[bytes], IO[bytes]]:
    read_end, write_end = os.pipe()
    return (
        reading.enter_context(os.fdopen(read_end, "rb", buffering=0)),
        writing.enter_context(os.fdopen(write_end, "wb", buffering=0)),
    )


def _handed(data: bytes, theirs: contextlib.ExitStack) -> int:
    # What is handed over may hold credentials, so it does not touch a disk where that can be had.
    if sys.platform == "linux":
        file: IO[bytes] = os.fdopen(os.memfd_create("handed"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it
    theirs.enter_context(file)
    file.write(data)
    file.seek(0)
    return file.fileno()


def _why(program: Program, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f"its command, folder or environment cannot be passed on ({error})"
    if not program.cwd.is_dir():
        return f"its folder {str(program.cwd)!r} does not exist"
    if error.errno == errno.ENOENT:
        return _what_is_missing(program)
    return _REASONS.get(error.errno or 0, str(error))


_REASONS = {
    errno.EACCES: "it is not an executable file, or lies in a folder that is closed to us",
    errno.ENOEXEC: "it is neither a binary for this machine nor a script that begins with #!",
    errno.E2BIG: "its arguments and environment are longer than the system takes;"
    " pass long texts through stdin or a file",
}


def _what_is_missing(program: Program) -> str:
    name = program.argv[0]
    if "/" in name:
        name = str(program.cwd / name)
    found = shutil.which(name, path=program.env.get("PATH", os.defpath))
    if found is None:
        return "there is no such program" + ("" if "/" in name else " on its PATH")
    return f"the interpreter that the first line of {found} names does not exist"
