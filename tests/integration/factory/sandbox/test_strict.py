"""The network of a program in the sandbox `strict`: listed hosts only."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.factory.programs import program, python
from tests.support.factory.real_sandbox import a_sandbox, output_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux"),
    # The first test on a machine downloads bubblewrap.
    pytest.mark.timeout(600),
]

FETCH = """
import urllib.error, urllib.request
for url in {urls}:
    try:
        print(urllib.request.urlopen(url, timeout=30).read().decode())
    except urllib.error.HTTPError as refused:
        print(refused.code)
    except OSError as trouble:
        print("nothing")
"""


@asynccontextmanager
async def a_site(said: str) -> AsyncIterator[int]:
    """Serve a fixed text over HTTP on loopback and yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{said}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def fetched(
    folder: Path, allow_hosts: list[str], urls: list[str], told: list[str] | None = None
) -> list[str]:
    work = folder / "work"
    work.mkdir()
    sandbox = await a_sandbox(folder, minimum="strict", allow_hosts=allow_hosts)
    return await output_in(sandbox, python(FETCH.format(urls=urls), cwd=work), reports=told)


async def test_listed_local_service_is_reachable_under_its_usual_address(
    tmp_path: Path,
) -> None:
    async with a_site("hello") as port, a_site("hush") as other:
        urls = [
            f"http://127.0.0.1:{port}/",
            f"http://localhost:{port}/",
            f"http://localhost:{other}/",
        ]
        said = await fetched(tmp_path, [f"localhost:{port}"], urls)
    assert said == ["hello", "hello", "nothing"]


async def test_blocked_host_is_logged_once(tmp_path: Path) -> None:
    items: list[str] = []
    urls = ["http://one.example/", "http://one.example/more", "https://two.example/"]
    said = await fetched(tmp_path, ["three.example"], urls, items)
    assert said == ["403", "403", "nothing"]
    assert items == [
        f"the sandbox blocks {host}: factory.allow-hosts does not name it"
        for host in ("one.example:80", "two.example:443")
    ]


async def test_allowed_name_that_resolves_to_loopback_is_blocked(tmp_path: Path) -> None:
    items: list[str] = []
    async with a_site("hush") as port:
        said = await fetched(tmp_path, [f"127.1:{port}"], [f"http://127.1:{port}/"], items)
    assert said == ["403"]
    [line] = items
    assert f"127.1:{port}: its address 127.0.0.1 is not public" in line


CROWD = """
import os, socket
proxy = os.environ["HTTP_PROXY"].rpartition("/")[2].split(":")
crowd = [socket.create_connection((proxy[0], int(proxy[1]))) for _ in range(257)]
crowd[-1].settimeout(60)
print(crowd[-1].recv(10))
crowd[0].sendall(b"CONNECT one.example:443 HTTP/1.1\\r\\n\\r\\n")
print(crowd[0].recv(12))
"""


async def test_connection_limit_blocks_excess_connections_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    sandbox = await a_sandbox(tmp_path, minimum="strict")
    said = await output_in(sandbox, python(CROWD, cwd=work))
    assert said == ["b''", "b'HTTP/1.1 403'"]


async def test_program_that_cannot_start_reports_the_reason(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    broken = work / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    sandbox = await a_sandbox(tmp_path, minimum="strict")
    said = await output_in(sandbox, program("./broken", cwd=work))
    assert said == ["cannot start './broken': No such file or directory"]
