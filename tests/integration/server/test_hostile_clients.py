"""Clients that send partial, oversized or no requests cannot hold resources for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gigafactory.api.http.limits import UnknownBodies
from gigafactory.server.connections import ConnectionLimits
from tests.support.api_server import PAGES_HOST, Server, a_server
from tests.support.polling import until

QUICK = ConnectionLimits(head_bytes=32 << 10, head_s=0.2, body_s=0.2, send_s=0.2)
PATIENT = ConnectionLimits(head_bytes=32 << 10, head_s=60, body_s=60)
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /api/fleet/tracker/webhook HTTP/1.1\r\nhost: 127.0.0.1\r\n"
LOGIN = f"POST /login HTTP/1.1\r\nhost: {PAGES_HOST}\r\ncontent-length: 100\r\n\r\nx".encode()
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


class Line:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Send the pieces; ignore that the server has closed the connection."""
        try:
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
        except ConnectionError:
            pass

    async def until_closed(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        received = b""
        try:
            async with asyncio.timeout(20):
                while piece := await self.reader.read(65536):
                    received += piece
        except ConnectionError:
            pass
        return received

    async def answer(self) -> bytes:
        """Return one response that has a content length."""
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return head + await self.reader.readexactly(length)


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Line]:
    at = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


async def is_healthy(server: Server) -> bool:
    async with connected(server) as line:
        await line.send(HEALTH)
        return (await line.answer()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "half",
    [
        b"G",
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: y",
        HEALTH[:-2],
        HEALTH + b"GET /healthz HTTP/1.1\r\n",
    ],
)
async def test_half_a_request_is_given_up(tmp_path: Path, half: bytes) -> None:
    async with a_server(tmp_path, limits=QUICK) as server, connected(server) as line:
        await line.send(half)
        received = await line.until_closed()
        assert received.split(b"HTTP/1.1 ")[-1].startswith(b"408 ")
        assert b'"code":"timed_out"' in received


async def test_a_connection_without_a_byte_is_closed_in_silence(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=QUICK) as server, connected(server) as line:
        assert await line.until_closed() == b""


async def test_a_head_that_comes_byte_by_byte_has_no_more_time(tmp_path: Path) -> None:
    limits = replace(PATIENT, head_s=0.3)
    async with a_server(tmp_path, limits=limits) as server, connected(server) as line:

        async def drip() -> None:
            while True:
                await line.send(b"x")
                await asyncio.sleep(0.01)

        await line.send(b"GET /healthz HTTP/1.1\r\nx-slow: ")
        dripping = asyncio.create_task(drip())
        assert (await line.until_closed()).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()


@pytest.mark.parametrize(
    "body",
    [
        POST + b"content-length: 100\r\n\r\nhalf",
        CHUNKED,
        CHUNKED + b"4\r\nhalf\r\n",
        CHUNKED + b"4;name=value",
        CHUNKED + b"4\r\nhalf\r\n0\r\ntrailer: x",
    ],
)
async def test_half_a_body_is_given_up(tmp_path: Path, body: bytes) -> None:
    async with a_server(tmp_path, limits=QUICK) as server, connected(server) as line:
        await line.send(body)
        # The application may refuse without the body; either way the connection ends.
        assert (await line.until_closed())[:12] in {b"HTTP/1.1 408", b"HTTP/1.1 401"}


async def test_a_slow_body_that_goes_on_is_read(tmp_path: Path) -> None:
    limits = replace(PATIENT, body_s=0.2, body_bytes=1)
    async with a_server(tmp_path, limits=limits) as server, connected(server) as line:
        size = 40
        head = (
            f"POST /api/fleet/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nx-product-id: notes\r\n"
            f"authorization: Bearer {server.admin_token}\r\ncontent-type: text/markdown\r\n"
            f"content-length: {size}\r\n\r\n"
        )
        await line.send(head.encode())
        for _ in range(size):
            await line.send(b"x")
            await asyncio.sleep(0.02)
        assert (await line.answer()).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 101 + b"\r\n",
        b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"x" * 40_000 + b": y\r\n\r\n",
    ],
    ids=["value", "number", "url", "name"],
)
async def test_a_head_that_is_too_large_is_refused(tmp_path: Path, head: bytes) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(head)
        received = await line.until_closed()
        assert received.startswith(b"HTTP/1.1 431 ")
        assert b'"code":"head_too_large"' in received


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /healthz HTTP/1.1\r\nx: ", b"y" * 8192),
        (b"GET /healthz HTTP/1.1\r\n", b"y: z\r\n" * 1000),
        (b"GET /", b"y" * 8192),
        (b"", b"\r\n" * 4096),
        (CHUNKED + b"4;", b"y" * 8192),
        (CHUNKED + b"4\r\nhalf\r\n0\r\n", b"y: z\r\n" * 1000),
        (CHUNKED + b"4\r\nhalf\r\n0\r\nx: ", b"y" * 8192),
    ],
    ids=["value", "headers", "url", "lines", "extension", "trailers", "trailer"],
)
async def test_bytes_without_end_are_cut_off(tmp_path: Path, start: bytes, more: bytes) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(start)
        sent = 0
        while not line.reader.at_eof() and sent < 64 << 20:
            await line.send(more)
            sent += len(more)
            if line.writer.is_closing() or line.reader.exception():
                break
            await asyncio.sleep(0)
        await line.until_closed()
        assert sent < 64 << 20
        assert await is_healthy(server)


@pytest.mark.parametrize(
    ("head", "more"),
    [
        (POST + b"content-length: 1000000000\r\n\r\n", b"x" * 65536),
        (CHUNKED, b"1;" + b"y" * 32000 + b"\r\nx\r\n"),
    ],
    ids=["length", "extensions"],
)
async def test_a_body_without_end_is_not_read_after_its_answer(
    tmp_path: Path, head: bytes, more: bytes
) -> None:
    limits = replace(PATIENT, unread_bytes=1 << 20)
    async with a_server(tmp_path, limits=limits) as server, connected(server) as line:
        await line.send(head)
        assert (await line.answer()).startswith(b"HTTP/1.1 4")
        sent = 0
        while not line.writer.is_closing() and not line.reader.at_eof() and sent < 256 << 20:
            await line.send(more)
            sent += len(more)
            await asyncio.sleep(0)
        await line.until_closed()
        assert sent < 256 << 20


async def test_a_client_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=QUICK) as server, connected(server) as line:
        ask = b"GET /api/openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        line.writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(20):
            while True:
                try:
                    line.writer.write(ask)
                    await line.writer.drain()
                except ConnectionError:
                    break
                if line.writer.is_closing():
                    break
                await asyncio.sleep(0.005)


def enrolling(size: int) -> bytes:
    head = f"POST /api/fleet/factories/enroll HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {size}"
    return f"{head}\r\n\r\n".encode()


@pytest.mark.parametrize("head", [enrolling(1 << 20), LOGIN.replace(b": 100", b": 1000000")])
async def test_a_stranger_cannot_send_a_large_body(tmp_path: Path, head: bytes) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(head)
        assert (await line.answer()).startswith(b"HTTP/1.1 413 ")


async def test_bodies_of_strangers_share_a_limit(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, AsyncExitStack() as stack:
        server.app.state.unknown_bodies = UnknownBodies(100_000)
        first, second, third = [await stack.enter_async_context(connected(server)) for _ in "123"]
        await first.send(enrolling(60_000) + b"x" * 59_999)
        await until(lambda: _is_refused(server))
        await second.send(enrolling(60_000))
        assert (await second.answer()).startswith(b"HTTP/1.1 503 ")
        await third.send(LOGIN + b"x" * 99)
        assert (await third.answer()).startswith(b"HTTP/1.1 422 ")
        await first.send(b"x")
        assert (await first.answer()).startswith(b"HTTP/1.1 400 ")
        assert not await _is_refused(server)


async def _is_refused(server: Server) -> bool:
    async with connected(server) as line:
        await line.send(enrolling(60_000) + b"x" * 60_000)
        return (await line.answer()).startswith(b"HTTP/1.1 503 ")


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(HEALTH * 8)
        for _ in range(8):
            assert (await line.answer()).startswith(b"HTTP/1.1 200 ")


async def test_a_thousand_pipelined_requests_are_refused(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(HEALTH * 1000)
        assert (await line.until_closed()).count(b"HTTP/1.1 200 ") < 100
        assert await is_healthy(server)


@pytest.mark.parametrize(
    "request_head",
    [
        HEALTH[:-2] + b"host: evil.test\r\n\r\n",
        HEALTH[:-2] + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        HEALTH[:-2] + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["two hosts", "two lengths", "different lengths", "connect", "tls", "http2"],
)
async def test_what_is_not_one_request_is_refused(tmp_path: Path, request_head: bytes) -> None:
    async with a_server(tmp_path, limits=QUICK) as server, connected(server) as line:
        await line.send(request_head)
        assert (await line.until_closed()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "request_head",
    [
        HEALTH.replace(b"HTTP/1.1", b"HTTP/1.0"),
        HEALTH[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
        HEALTH[:-2] + b"connection: upgrade\r\nupgrade: h2c\r\n\r\nmore",
    ],
    ids=["http 1.0", "websocket", "h2c"],
)
async def test_an_answer_that_ends_the_connection(tmp_path: Path, request_head: bytes) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        await line.send(request_head)
        assert (await line.until_closed()).startswith(b"HTTP/1.1 200 ")


async def test_trailers_are_no_headers(tmp_path: Path) -> None:
    async with a_server(tmp_path, limits=PATIENT) as server, connected(server) as line:
        secret = server.admin_token.encode()
        ask = (
            b"POST /api/fleet/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/markdown\r\n"
            b"transfer-encoding: chunked\r\n\r\n3\r\n# X\r\n0\r\n"
            b"authorization: Bearer " + secret + b"\r\nx-product-id: notes\r\n\r\n"
        )
        await line.send(ask)
        assert (await line.answer()).startswith(b"HTTP/1.1 401 ")


async def known(server: Server, stack: AsyncExitStack, address: str = "127.0.0.1") -> Line:
    """Open a connection and prove on it who uses it."""
    at = urlsplit(server.url)
    line = Line(*await asyncio.open_connection(at.hostname, at.port, local_addr=(address, 0)))
    stack.callback(line.writer.close)
    token = server.admin_token.encode()
    await line.send(b"GET /api/fleet/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\n")
    await line.send(b"authorization: Bearer " + token + b"\r\n\r\n")
    assert (await line.answer()).startswith(b"HTTP/1.1 200 ")
    return line


async def test_one_address_cannot_take_all_connections(tmp_path: Path) -> None:
    limits = replace(PATIENT, connections=20, per_address=5)
    async with a_server(tmp_path, limits=limits) as server:
        async with AsyncExitStack() as stack:
            for _ in range(5):
                await known(server, stack)
            async with connected(server) as line:
                received = await line.until_closed()
                assert received.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 5" in received
            await known(server, stack, "127.0.0.2")
        await until(lambda: _is_served(server))


@pytest.mark.parametrize("half", [b"", HEALTH, HEALTH[:-2], LOGIN])
async def test_strangers_make_way_for_others_when_all_places_are_taken(
    tmp_path: Path, half: bytes
) -> None:
    limits = replace(PATIENT, connections=5, per_address=5)
    async with a_server(tmp_path, limits=limits) as server, AsyncExitStack() as stack:
        first = await known(server, stack)
        strangers = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for line in strangers:
            await line.send(half)
        for _ in range(4):
            await known(server, stack)
        for line in strangers:
            assert (await line.until_closed()).split(b"HTTP/1.1 ")[-1][:4] in {b"503 ", b""}
        await first.send(HEALTH)
        assert (await first.answer()).startswith(b"HTTP/1.1 200 ")


async def _is_served(server: Server) -> bool:
    async with connected(server) as line:
        await line.send(HEALTH)
        try:
            return (await line.answer()).startswith(b"HTTP/1.1 200 ")
        except (ConnectionError, asyncio.IncompleteReadError, IndexError):
            return False
