"""Runs a program for a short answer: bounded in time and output, without secrets."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import msgspec

from gigafactory.domain.errors import Refused

ANSWER_S = 5.0
ANSWER_BYTES_MAX = 256 * 1024
REAP_S = 2.0

PASSED_ON = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TMPDIR TEMP TMP LD_LIBRARY_PATH
    XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME
    PYENV_ROOT PYENV_VERSION NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR ASDF_DIR ASDF_DATA_DIR
    MISE_DATA_DIR SDKMAN_DIR JAVA_HOME GOROOT GOPATH CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN
    PNPM_HOME DEVELOPER_DIR DOCKER_HOST DOCKER_CONTEXT
    SYSTEMROOT COMSPEC PATHEXT USERPROFILE APPDATA LOCALAPPDATA PROGRAMFILES
    """.split()  # noqa: SIM905 - names read best as text
)
"""Variables by which programs and version managers find themselves; none is a credential."""

QUIET = {
    "CI": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "200",
    "DO_NOT_TRACK": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CHECKPOINT_DISABLE": "1",
    "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",
    "GOTOOLCHAIN": "local",
    "RUSTUP_AUTO_INSTALL": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Variables that stop programs from prompting, colouring, phoning home or updating themselves."""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a program printed and how it ended."""

    text: str = ""
    """Its output, stdout before stderr, as far as it was read."""
    exit_code: int | None = None
    """None if it was not started or had to be stopped."""
    problem: str | None = None
    """Why the answer is not usable, as text to follow the program's name; else None."""


class ProgramProbe:
    """Runs probes, a few at a time, until a deadline that all of them share."""

    def __init__(self, environ: Mapping[str, str], *, at_once: int, total_s: float) -> None:
        self._env = probe_environment(environ)
        self._room = asyncio.Semaphore(at_once)
        self._deadline = asyncio.get_running_loop().time() + total_s

    async def run(self, *argv: str, limit_s: float = ANSWER_S) -> ProbeResult:
        """Return a program's answer within the limit; never raises and never hangs."""
        async with self._room:
            left_s = self._deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return ProbeResult(problem="was not run: the time for detection was up")
            return await run_probe(argv, env=self._env, limit_s=min(limit_s, left_s))


def probe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a probe: variables to find programs, to quiet them, no others."""
    return {name: value for name, value in environ.items() if name.upper() in PASSED_ON} | QUIET


async def run_probe(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    limit_s: float = ANSWER_S,
    bytes_max: int = ANSWER_BYTES_MAX,
) -> ProbeResult:
    """Run a program that should answer at once; it and its process group are gone afterwards."""
    try:
        transport, listener = await _started(argv, env, bytes_max)
    except (OSError, ValueError) as error:
        return ProbeResult(problem=f"could not be started: {error}")
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await listener.over.wait()
        exit_code = transport.get_returncode()
    finally:
        await _end(transport, listener)
    return _answer(listener, exit_code, limit_s)


class _Listener(asyncio.SubprocessProtocol):
    def __init__(self, bytes_max: int) -> None:
        self.heard = {1: bytearray(), 2: bytearray()}
        self.flooded = False
        self.over = asyncio.Event()
        """It has ended, or printed too much."""
        self.closed = asyncio.Event()
        """It has ended, and all pipes are closed."""
        self.bytes_max = bytes_max
        self._awaited = 3

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        buffer = self.heard[fd]
        room = self.bytes_max - len(buffer)
        buffer += data[:room]
        if len(data) > room:
            self.flooded = True
            self.over.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._end_one()

    def process_exited(self) -> None:
        self.over.set()
        self._end_one()

    def _end_one(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self.closed.set()


async def _started(
    argv: Sequence[str], env: Mapping[str, str], bytes_max: int
) -> tuple[asyncio.SubprocessTransport, _Listener]:
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Listener(bytes_max),
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            # Version managers look for settings upwards from here; there are none above the root.
            cwd=os.sep,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # If cancelled during the start, asyncio would kill only the leader of the group.
        with contextlib.suppress(OSError, ValueError):
            await _end(*await starting)
        raise


async def _end(transport: asyncio.SubprocessTransport, listener: _Listener) -> None:
    """Kill what is left of the process group, read the rest and close the pipes."""
    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                transport.kill()
            else:
                os.killpg(transport.get_pid(), signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAP_S):
                await listener.closed.wait()
    finally:
        transport.close()


def _answer(listener: _Listener, exit_code: int | None, limit_s: float) -> ProbeResult:
    text = b"\n".join(bytes(buffer) for buffer in listener.heard.values()).decode(errors="replace")
    if listener.flooded:
        problem = f"printed more than {listener.bytes_max} bytes"
        return ProbeResult(text=text, problem=problem)
    if exit_code is None:
        return ProbeResult(text=text, problem=f"did not answer within {limit_s:g} s")
    if exit_code != 0:
        return ProbeResult(text=text, exit_code=exit_code, problem=_failed(exit_code, text))
    return ProbeResult(text=text, exit_code=0)


def _failed(exit_code: int, text: str) -> str:
    how = f"ended with exit code {exit_code}" if exit_code > 0 else f"died of signal {-exit_code}"
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    last_line = "".join(char for char in last if char.isprintable())[:200]
    return f"{how}: {last_line}" if last_line else how


class UnsupportedSystem(Refused):
    """This operating system lacks a required feature."""

    code = "not_on_this_system"


def require_posix(platform: str = sys.platform) -> None:
    """Raise NotHere where processes have no groups and sessions, as on Windows."""
    if platform == "win32":
        raise UnsupportedSystem(
            "jobs cannot run on Windows itself: it has no process groups, which are needed to stop"
            " everything that a job started; use WSL (`wsl --install`) here; you can submit and"
            " watch jobs from anywhere"
        )
