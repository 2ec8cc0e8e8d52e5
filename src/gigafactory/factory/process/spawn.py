"""Starts a program with exactly its arguments, environment, folder and pipes; inherits nothing.

POSIX only: a run has its own session, so that it can be signalled as a whole.
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
from gigafactory.factory.process.orphans import with_mark

EXTRA_INPUT = "\0handed"
"""Placeholder in `argv` for the number of the descriptor that `extra_input` is read from."""


class CannotStart(Refused):
    """A program could not be started; nothing has run."""

    code = "cannot_start"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """Its whole environment, except for the mark."""
    mark: str
    """A random token by which all its processes are found (`orphans.new_mark`)."""
    stdin: bytes = b""
    stdin_open: bool = False
    """Whether stdin stays open for the listener's answers; else it is closed after `stdin`."""
    extra_input: bytes | None = None
    """Bytes that it can read from an additional descriptor, invisible to other processes."""
    inherited_fds: tuple[int, ...] = ()
    """Our descriptors that it inherits under the same numbers."""
    cgroup: Path | None = None
    """The control group that it runs in, which is removed with it."""
    is_wrapper: bool = False
    """Whether it starts the real program in another session, which gentle signals then go to."""


class ChildProcess(msgspec.Struct, frozen=True):
    """A running program and our ends of its pipes."""

    popen: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    stdin: IO[bytes] | None


def spawn(program: Program) -> ChildProcess:
    """Start a program.

    Raises CannotStart with a sentence that says what is missing.
    """
    if not program.argv:
        raise CannotStart("cannot start a program: its command is empty")
    with contextlib.ExitStack() as child_files, contextlib.ExitStack() as parent_files:
        try:
            child = _spawn(program, child_files, parent_files)
        except (OSError, ValueError) as error:
            raise CannotStart(
                f"cannot start {program.argv[0]!r}: {_explain(program, error)}"
            ) from None
        parent_files.pop_all()
        return child


def _spawn(
    program: Program, child_files: contextlib.ExitStack, parent_files: contextlib.ExitStack
) -> ChildProcess:
    stdout, to_stdout = _pipe(parent_files, child_files)
    stderr, to_stderr = _pipe(parent_files, child_files)
    stdin: IO[bytes] | None = None
    from_stdin: int | IO[bytes] = subprocess.DEVNULL
    if program.stdin or program.stdin_open:
        from_stdin, stdin = _pipe(child_files, parent_files)
    passed_files = (
        () if program.extra_input is None else (_extra_input(program.extra_input, child_files),)
    )
    # Called in the thread of the event loop: a sandbox dies with the thread that started it.
    popen = subprocess.Popen(
        [
            str(passed_files[0]) if passed_files and word == EXTRA_INPUT else word
            for word in program.argv
        ],
        cwd=program.cwd,
        env=with_mark(program.env, program.mark),
        stdin=from_stdin,
        stdout=to_stdout,
        stderr=to_stderr,
        pass_fds=(*passed_files, *program.inherited_fds),
        start_new_session=True,
    )
    return ChildProcess(popen, stdout, stderr, stdin)


def _pipe(
    reading: contextlib.ExitStack, writing: contextlib.ExitStack
) -> tuple[IO[bytes], IO[bytes]]:
    read_end, write_end = os.pipe()
    return (
        reading.enter_context(os.fdopen(read_end, "rb", buffering=0)),
        writing.enter_context(os.fdopen(write_end, "wb", buffering=0)),
    )


def _extra_input(data: bytes, child_files: contextlib.ExitStack) -> int:
    # The input may contain credentials, so it stays off the disk where that is possible.
    if sys.platform == "linux":
        file: IO[bytes] = os.fdopen(os.memfd_create("handed"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it
    child_files.enter_context(file)
    file.write(data)
    file.seek(0)
    return file.fileno()


def _explain(program: Program, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f"its command, folder or environment is invalid ({error})"
    if not program.cwd.is_dir():
        return f"its folder {str(program.cwd)!r} does not exist"
    if error.errno == errno.ENOENT:
        return _explain_missing(program)
    return _REASONS.get(error.errno or 0, str(error))


_REASONS = {
    errno.EACCES: "it is not an executable file, or is in a folder without access",
    errno.ENOEXEC: "it is neither a binary for this machine nor a script that starts with #!",
    errno.E2BIG: "its arguments and environment exceed the system's limit;"
    " pass long texts through stdin or a file",
}


def _explain_missing(program: Program) -> str:
    name = program.argv[0]
    if "/" in name:
        name = str(program.cwd / name)
    path = shutil.which(name, path=program.env.get("PATH", os.defpath))
    if path is None:
        return "there is no such program" + ("" if "/" in name else " on its PATH")
    return f"the interpreter that the first line of {path} names does not exist"
