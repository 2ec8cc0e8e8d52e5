"""Runs git so that nothing of a repo is executed, and every call ends in time."""

import asyncio
import base64
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.git import environment as git_environment
from gigafactory.factory.git.dns_pinning import pin_addresses, pin_ssh
from gigafactory.factory.git.environment import Identity
from gigafactory.factory.git.errors import (
    GitNotFound,
    GitOutputTooLong,
    GitTimeout,
    error_from_output,
)
from gigafactory.factory.git.remote_url import RemoteAddress

LOCAL_TIMEOUT_S = 120.0
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
_STDERR_BYTES = 16 * 1024
_CHUNK_BYTES = 64 * 1024
_GRACE_S = 2.0


class GitLocation(msgspec.Struct, frozen=True):
    """Where a command works; git never searches for a repo itself."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None


class GitOutput(msgspec.Struct, frozen=True):
    """The output of git."""

    code: int
    stdout: bytes

    @property
    def text(self) -> str:
        """Return stdout as text, without the last line break."""
        return self.stdout.decode("utf-8", "replace").removesuffix("\n")


class Git:
    """The factory's git, with credentials that no engine sees.

    `credentials` maps a URL prefix to a token or to `user:password`.
    """

    def __init__(
        self,
        *,
        credentials: Mapping[str, str] | None = None,
        local: bool = False,
        plain: bool = False,
        identity: Identity = Identity(),  # noqa: B008 - frozen
        ssh: str = git_environment.SSH,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`local` allows local repos, `plain` allows unencrypted http and git."""
        self.identity = identity
        self.runs = 0
        self._headers = {prefix: _header(token) for prefix, token in (credentials or {}).items()}
        self._secrets = _secret_spellings((credentials or {}).values(), self._headers.values())
        environ = os.environ if environ is None else environ
        protocols = ["https", "ssh", *(["file"] if local else []), *(["http", "git"] * plain)]
        self._environment = git_environment.build_environment(
            environ, identity, protocols=protocols, ssh=ssh
        )
        self._program = shutil.which("git", path=self._environment["PATH"]) or "git"
        self._proxied = any(name in environ for name in git_environment.PROXIES)

    async def run(
        self,
        *args: str,
        place: GitLocation | None = None,
        address: RemoteAddress | None = None,
        stdin: bytes = b"",
        codes: Collection[int] = (0,),
        timeout_s: float = LOCAL_TIMEOUT_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        settings: Sequence[tuple[str, str]] = (),
        variables: Mapping[str, str] | None = None,
    ) -> GitOutput:
        """Run one command to its end; `address` is the remote that it contacts.

        Raises GitFailed if it ends in none of `codes`, takes too long or prints too much.
        """
        more = [*settings, *(await self._for_remote(address) if address else ())]
        env = (
            self._environment
            | git_environment.settings_variables(more)
            | _location_variables(place)
        )
        if address is not None and address.scheme == "ssh":
            ssh = await pin_ssh(address, self._environment["GIT_SSH_COMMAND"], self._environment)
            env["GIT_SSH_COMMAND"] = ssh
        process = await self._started(args, env | dict(variables or {}), place, fed=bool(stdin))
        try:
            async with asyncio.timeout(timeout_s):
                (stdout, too_much), stderr, _ = await asyncio.gather(
                    _read_output(process, output_bytes_max), _tail(process), _feed(process, stdin)
                )
                code = await process.wait()
        except TimeoutError:
            raise GitTimeout(args, None, f"stopped after {timeout_s:g} s") from None
        finally:
            await _complete(_end(process))
        if too_much:
            raise GitOutputTooLong(args, output_bytes_max, stdout[:output_bytes_max])
        if code not in codes:
            # A push reports the remote's refusal on stdout.
            message = stdout.decode("utf-8", "replace") + stderr if args[0] == "push" else stderr
            raise error_from_output(args, code, self._redacted(message))
        return GitOutput(code, stdout)

    async def _started(
        self, args: Sequence[str], env: Mapping[str, str], place: GitLocation | None, *, fed: bool
    ) -> Process:
        folder = _folder(place)
        try:
            starting = asyncio.create_subprocess_exec(
                self._program,
                *args,
                env=env,
                cwd=folder,
                stdin=PIPE if fed else DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
            process = await _started(asyncio.ensure_future(starting))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise GitNotFound(args, None, f"no git, or no folder {folder}: {error}") from None
        self.runs += 1
        return process

    async def _for_remote(self, address: RemoteAddress) -> list[tuple[str, str]]:
        pinned = await pin_addresses(address, proxied=self._proxied)
        prefix = max((p for p in self._headers if address.is_below(p)), key=len, default=None)
        if prefix is not None:
            pinned.append((f"http.{prefix}.extraHeader", self._headers[prefix]))
        return pinned

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _header(token: str) -> str:
    pair = token if ":" in token else f"x-access-token:{token}"
    return "Authorization: Basic " + base64.b64encode(pair.encode()).decode()


def _secret_spellings(tokens: Collection[str], headers: Collection[str]) -> tuple[str, ...]:
    parts = {part for token in tokens for part in (token, token.partition(":")[2]) if part}
    return (*sorted(parts, key=len, reverse=True), *(h.rpartition(" ")[2] for h in headers))


def _location_variables(place: GitLocation | None) -> dict[str, str]:
    if place is None:
        return {}
    variables = {"GIT_DIR": str(place.git_dir)}
    if place.work_tree is not None:
        variables["GIT_WORK_TREE"] = str(place.work_tree)
    if place.index is not None:
        variables["GIT_INDEX_FILE"] = str(place.index)
    return variables


def _folder(place: GitLocation | None) -> str:
    # In any other folder git might find a repo, or a remote's relative path, to use.
    if place is None:
        return Path(Path.cwd().anchor).as_posix()
    return str(place.work_tree or place.git_dir)


async def _read_output(process: Process, bytes_max: int) -> tuple[bytes, bool]:
    assert process.stdout is not None
    taken = bytearray()
    too_much = False
    # The end of a process is only noticed when its pipes have been read to their end.
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        if too_much:
            continue
        taken += chunk
        if len(taken) > bytes_max:
            too_much = True
            _kill(process, signal.SIGKILL)
    return bytes(taken), too_much


async def _tail(process: Process) -> str:
    assert process.stderr is not None
    tail = b""
    while chunk := await process.stderr.read(_CHUNK_BYTES):
        tail = (tail + chunk)[-_STDERR_BYTES:]
    return tail.decode("utf-8", "replace")


async def _feed(process: Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    # Git may end without reading everything; its exit code says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _started(starting: "asyncio.Task[Process]") -> Process:
    """Return the process; if the caller is cancelled meanwhile, kill it."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _complete(_end(await starting))
        raise


async def _complete(work: Coroutine[None, None, None]) -> None:
    """Complete `work` even if the caller is cancelled, so that no process is left running."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await doing
        raise


async def _end(process: Process) -> None:
    if process.returncode is None:
        await _stop(process)
    # Pipes are closed only after they have been read to their end.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(_CHUNK_BYTES):
                    pass


async def _stop(process: Process) -> None:
    # SIGTERM first: git then removes its lock files and partial packs.
    _kill(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        _kill(process, signal.SIGKILL)
    await process.wait()


def _kill(process: Process, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
