"""Git commands: their environment, limits, errors and secrets."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gigafactory.factory.git.errors import GitFailed, GitTimeout, RemoteForbidden
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.remote_url import (
    AddressRefused,
    AllowedRemotes,
    RemoteAddress,
    parse_address,
)
from tests.support.polling import until

LOOPBACK = AllowedRemotes(hosts=("127.0.0.1",), plain=True)
UNAUTHORIZED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def test_user_and_system_git_config_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = somebody\n[core]\n\teditor = vi\n")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "GIT_CONFIG_COUNT": "0"}
    listed = (await Git(environ=environ).run("config", "--list", "--show-origin")).text
    assert {line.partition("\t")[0] for line in listed.splitlines()} == {"command line:"}
    assert "somebody" not in listed


async def test_factory_environment_is_not_passed_to_git(tmp_path: Path) -> None:
    environ = {
        "PATH": f".:bin:{os.environ['PATH']}",
        "AQ_TOKEN": "secret",
        "GIT_SSH": "evil",
        "GIT_EXTERNAL_DIFF": "evil",
        "SSL_CERT_FILE": "/ca.pem",
        "HTTPS_PROXY": "http://proxy:3128",
    }
    shown = (await Git(environ=environ).run("-c", "alias.env=!env", "env")).text
    seen = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    assert not {"AQ_TOKEN", "GIT_SSH", "GIT_EXTERNAL_DIFF"}.intersection(seen)
    assert all(Path(part).is_absolute() for part in seen["PATH"].split(":"))
    assert (seen["GIT_SSL_CAINFO"], seen["HTTPS_PROXY"]) == ("/ca.pem", "http://proxy:3128")


async def test_git_command_beyond_its_timeout_is_ended(tmp_path: Path) -> None:
    with pytest.raises(GitTimeout, match="did not end in time"):
        await Git().run("-c", "alias.wait=!sleep 1000", "wait", timeout_s=0.1)


async def test_cancelled_git_command_ends_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"!trap '' TERM; sleep 1000 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    running = asyncio.create_task(Git().run("-c", f"alias.wait={script}", "wait"))
    await until(pids.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    started = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(_lives(pid) for pid in started))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie is dead although its parent has not reaped it yet.
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_git_command_with_too_much_output_is_ended(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="more than 1000 bytes"):
        await Git().run("-c", "alias.flood=!yes", "flood", output_bytes_max=1000)


async def test_git_failure_has_the_command_exit_code_and_last_output(tmp_path: Path) -> None:
    with pytest.raises(GitFailed) as caught:
        await Git().run("no-such-command", "x")
    assert caught.value.command == ("no-such-command", "x")
    assert caught.value.exit_code == 1
    assert "is not a git command" in caught.value.detail


async def test_unread_stdin_does_not_fail_a_git_command() -> None:
    assert (await Git().run("version", stdin=b"x" * 10_000_000)).text.startswith("git version")


@asynccontextmanager
async def a_web_server(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve the same response to every request; yield the port and the recorded requests."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def test_token_is_sent_only_to_its_own_repos_and_is_in_no_error(tmp_path: Path) -> None:
    async with a_web_server(UNAUTHORIZED) as (port, asked):
        here = f"http://127.0.0.1:{port}"
        tokens = {f"{here}/acme": "general", f"{here}/acme/notes.git": "s3cr3t-token"}
        git = Git(plain=True, environ={"PATH": os.environ["PATH"]}, credentials=tokens)
        mirrors = Mirrors(tmp_path, git)
        for path in ("acme/notes.git", "acme/other.git", "acme-evil/notes.git"):
            with pytest.raises(RemoteForbidden) as caught:
                await mirrors.open(parse_address(f"{here}/{path}", LOOPBACK))
            assert "s3cr3t" not in repr(caught.value)
    seen = [[line for line in one.split(b"\r\n") if b"uthorization" in line] for one in asked]
    expected = [_basic("s3cr3t-token"), _basic("general")]
    assert [lines for lines in seen if lines] == [[line] for line in expected]


def _basic(token: str) -> bytes:
    return b"Authorization: Basic " + base64.b64encode(f"x-access-token:{token}".encode())


async def test_secrets_are_redacted_from_git_error_output() -> None:
    git = Git(credentials={"https://example.com": "user:s3cr3t"})
    encoded = base64.b64encode(b"user:s3cr3t").decode()
    with pytest.raises(GitFailed) as caught:
        await git.run("-c", f"alias.tell=!echo s3cr3t {encoded} >&2; exit 3", "tell")
    assert "s3cr3t" not in caught.value.detail
    assert encoded not in caught.value.detail


async def test_http_redirect_of_a_remote_is_not_followed(tmp_path: Path) -> None:
    async with a_web_server(UNAUTHORIZED) as (inner, never_asked):
        moved = f"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:{inner}/x/info/refs\r\n"
        answer = f"{moved}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        async with a_web_server(answer) as (port, asked):
            address = parse_address(f"http://127.0.0.1:{port}/acme/notes.git", LOOPBACK)
            git = Git(plain=True, environ={"PATH": os.environ["PATH"]})
            with pytest.raises(GitFailed):
                await Mirrors(tmp_path, git).open(address)
    assert len(asked) == 1
    assert never_asked == []


async def test_host_name_that_resolves_to_loopback_is_rejected(
    tmp_path: Path,
) -> None:
    address = RemoteAddress(
        url="https://localhost/x.git", scheme="https", host="localhost", port=443
    )
    git = Git(environ={"PATH": os.environ["PATH"]})
    with pytest.raises(AddressRefused, match="localhost resolves to"):
        await Mirrors(tmp_path, git).open(address)
