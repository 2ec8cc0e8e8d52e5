"""Runs git: nothing of a repo's own can run with it, and every call ends in time."""

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
from gigafactory.factory.git.dns_pinning import pins
from gigafactory.factory.git.environment import Identity
from gigafactory.factory.git.errors import GitTimeout, Missing, SaidTooMuch, failure
from gigafactory.factory.git.remote_url import Address

LOCAL_TIMEOUT_S = 120.0
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
_STDERR_BYTES = 16 * 1024
_CHUNK_BYTES = 64 * 1024
_GRACE_S = 2.0


class Place(msgspec.Struct, frozen=True):
    """Where a command works; never found by looking around."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None


class Output(msgspec.Struct, frozen=True):
    """What git answered."""

    code: int
    stdout: bytes

    @property
    def text(self) -> str:
        """The answer as one text, without the last line end."""
        return self.stdout.decode("utf-8", "replace").removesuffix("\n")


class Git:
    """The factory's own git, with the credentials that no engine sees.

    `credentials` maps the beginning of a URL to a token, or to `user:password`.
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
        """Allow local repos (`local`), and http and git without encryption (`plain`)."""
        self.identity = identity
        self.runs = 0
        self._headers = {prefix: _header(token) for prefix, token in (credentials or {}).items()}
        self._secrets = _spellings((credentials or {}).values(), self._headers.values())
        environ = os.environ if environ is None else environ
        protocols = ["https", "ssh", *(["file"] if local else []), *(["http", "git"] * plain)]
        self._environment = git_environment.environment(
            environ, identity, protocols=protocols, ssh=ssh
        )
        self._program = shutil.which("git", path=self._environment["PATH"]) or "git"
        self._proxied = any(name in environ for name in git_environment.PROXIES)

    async def run(
        self,
        *args: str,
        place: Place | None = None,
        address: Address | None = None,
        stdin: bytes = b"",
        codes: Collection[int] = (0,),
        timeout_s: float = LOCAL_TIMEOUT_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        settings: Sequence[tuple[str, str]] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Output:
        """Run one command to its end; `address` is the remote that it will talk to.

        Raises GitFailed when it ends in none of `codes`, takes too long or says too much.
        """
        more = [*settings, *(await self._for_remote(address) if address else ())]
        env = self._environment | git_environment.settings(more) | _located(place)
        process = await self._started(args, env | dict(variables or {}), place, fed=bool(stdin))
        try:
            async with asyncio.timeout(timeout_s):
                (stdout, too_much), stderr, _ = await asyncio.gather(
                    _taken(process, output_bytes_max), _tail(process), _fed(process, stdin)
                )
                code = await process.wait()
        except TimeoutError:
            raise GitTimeout(args, None, f"stopped after {timeout_s:g} s") from None
        finally:
            await _to_its_end(_end(process))
        if too_much:
            raise SaidTooMuch(args, output_bytes_max, stdout[:output_bytes_max])
        if code not in codes:
            # What a remote refuses, a push tells on stdout.
            said = stdout.decode("utf-8", "replace") + stderr if args[0] == "push" else stderr
            raise failure(args, code, self._redacted(said))
        return Output(code, stdout)

    async def _started(
        self, args: Sequence[str], env: Mapping[str, str], place: Place | None, *, fed: bool
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
            raise Missing(args, None, f"no git, or no folder {folder}: {error}") from None
        self.runs += 1
        return process

    async def _for_remote(self, address: Address) -> list[tuple[str, str]]:
        found = await pins(address, proxied=self._proxied)
        prefix = max((p for p in self._headers if address.is_below(p)), key=len, default=None)
        if prefix is not None:
            found.append((f"http.{prefix}.extraHeader", self._headers[prefix]))
        return found

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _header(token: str) -> str:
    pair = token if ":" in token else f"x-access-token:{token}"
    return "Authorization: Basic " + base64.b64encode(pair.encode()).decode()


def _spellings(tokens: Collection[str], headers: Collection[str]) -> tuple[str, ...]:
    parts = {part for token in tokens for part in (token, token.partition(":")[2]) if part}
    return (*sorted(parts, key=len, reverse=True), *(h.rpartition(" ")[2] for h in headers))


def _located(place: Place | None) -> dict[str, str]:
    if place is None:
        return {}
    found = {"GIT_DIR": str(place.git_dir)}
    if place.work_tree is not None:
        found["GIT_WORK_TREE"] = str(place.work_tree)
    if place.index is not None:
        found["GIT_INDEX_FILE"] = str(place.index)
    return found


def _folder(place: Place | None) -> str:
    # In a folder of its own choice git might find a repo, or a remote's relative path, to use.
    if place is None:
        return Path(Path.cwd().anchor).as_posix()
    return str(place.work_tree or place.git_dir)


async def _taken(process: Process, bytes_max: int) -> tuple[bytes, bool]:
    assert process.stdout is not None
    taken = bytearray()
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        taken += chunk
        if len(taken) > bytes_max:
            _kill(process, signal.SIGKILL)
            return bytes(taken), True
    return bytes(taken), False


async def _tail(process: Process) -> str:
    assert process.stderr is not None
    tail = b""
    while chunk := await process.stderr.read(_CHUNK_BYTES):
        tail = (tail + chunk)[-_STDERR_BYTES:]
    return tail.decode("utf-8", "replace")


async def _fed(process: Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    # It may end without reading all; its exit code will say why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _started(starting: "asyncio.Task[Process]") -> Process:
    """The process; when the caller is cancelled meanwhile, it is ended and not left to itself."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _to_its_end(_end(await starting))
        raise


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Do this, also for one who is cancelled in the middle of it: no process is left to itself."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await doing
        raise


async def _end(process: Process) -> None:
    if process.returncode is None:
        await _stop(process)
    # Pipes are let go of only when they have been read to their end.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(_CHUNK_BYTES):
                    pass


async def _stop(process: Process) -> None:
    # Asked first: git removes its lock files and half packs when it is.
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
