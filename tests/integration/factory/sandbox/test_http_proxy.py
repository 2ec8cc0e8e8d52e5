"""The HTTP proxy of a strict sandbox: allowed hosts, blocked hosts and limits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from gigafactory.factory.sandbox.allow_list import AllowList
from gigafactory.factory.sandbox.egress import Egress
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, HttpProxyServer
from gigafactory.factory.sandbox.tunnel import StreamPair
from gigafactory.factory.sandbox.upstream_proxy import UpstreamProxy

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def a_proxy(*allowed: str, upstream: UpstreamProxy | None = None) -> AsyncIterator[int]:
    proxy = HttpProxyServer(Egress(AllowList.parse(allowed), upstream).connect)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await proxy.serve(StreamPair(reader, writer))
        finally:
            writer.close()

    async with listening(serve) as port:
        yield port


async def asked(port: int, sent: bytes) -> bytes:
    """Send bytes to the proxy and return the whole response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond with the head of the request."""
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
    await writer.drain()
    writer.close()


async def test_tunnel_carries_data_both_ways() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(300_000)).upper())
        await writer.drain()
        writer.close()

    async with listening(shout) as there, a_proxy(f"127.0.0.1:{there}") as port:
        request = f"CONNECT 127.0.0.1:{there} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = await asked(port, request + b"a" * 300_000)
    head, _, data = answer.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 Connection established"
    assert data == b"A" * 300_000


async def test_plain_request_is_forwarded_with_only_its_own_host_name() -> None:
    async with listening(echo) as there, a_proxy(f"127.0.0.1:{there}") as port:
        answer = await asked(
            port,
            f"GET http://user@127.0.0.1:{there}/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\n"
            "Proxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\nAccept: x\r\n\r\n"
            "".encode(),
        )
    assert (
        answer.partition(b"\r\n\r\n")[2]
        == (
            f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{there}\r\nConnection: close\r\nAccept: x"
            "\r\n\r\n"
        ).encode()
    )


@pytest.mark.parametrize("request_line", ["CONNECT other.example:443", "GET http://other.example/"])
async def test_unlisted_host_is_blocked_and_named(request_line: str) -> None:
    sent = f"{request_line} HTTP/1.1\r\nHost: fine.example\r\n\r\n".encode()
    async with a_proxy("fine.example") as port:
        answer = await asked(port, sent)
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"the sandbox blocks other.example:" in answer
    assert b"factory.allow-hosts does not name it" in answer


@pytest.mark.parametrize(
    "spelling", ["127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "[::1]", "0"]
)
async def test_loopback_is_blocked_in_every_spelling(spelling: str) -> None:
    async with listening(echo) as there, a_proxy("fine.example", "*.example") as port:
        answer = await asked(port, f"CONNECT {spelling}:{there} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_allowed_name_that_resolves_to_loopback_is_blocked() -> None:
    async with listening(echo) as there, a_proxy(f"127.1:{there}") as port:
        answer = await asked(port, f"CONNECT 127.1:{there} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"its address 127.0.0.1 is not public" in answer


@pytest.mark.parametrize(
    ("spared", "through"),
    [("", True), ("other.example", True), ("fine.invalid", False), ("*", False)],
)
async def test_allowed_host_is_reached_through_the_upstream_proxy(
    spared: str, *, through: bool
) -> None:
    asked_for: list[bytes] = []

    async def corporate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked_for.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 fine\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with listening(corporate) as there:
        environ = {"HTTPS_PROXY": f"http://me:pass%20word@127.0.0.1:{there}", "NO_PROXY": spared}
        async with a_proxy(
            "fine.invalid", upstream=UpstreamProxy.from_environment(environ)
        ) as port:
            answer = await asked(port, b"CONNECT fine.invalid:443 HTTP/1.1\r\n\r\n")
            refused = await asked(port, b"CONNECT other.invalid:443 HTTP/1.1\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 403 ")
    if not through:
        assert asked_for == []
        assert b"fine.invalid has no address" in answer
        return
    assert answer.endswith(b"\r\n\r\nhello")
    [head] = asked_for
    assert head.split(b"\r\n")[:3] == [
        b"CONNECT fine.invalid:443 HTTP/1.1",
        b"Host: fine.invalid:443",
        b"Proxy-Authorization: Basic bWU6cGFzcyB3b3Jk",
    ]


@pytest.mark.parametrize("said", [b"HTTP/1.1 407 Who are you?\r\n\r\n", b"", b"\r\n\r\n"])
async def test_refusing_upstream_proxy_is_reported(said: bytes) -> None:
    async def corporate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        writer.close()

    async with listening(corporate) as there:
        upstream = UpstreamProxy.from_environment({"https_proxy": f"127.0.0.1:{there}"})
        async with a_proxy("fine.invalid", upstream=upstream) as port:
            answer = await asked(port, b"CONNECT fine.invalid:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"the proxy 127.0.0.1" in answer


@pytest.mark.parametrize(
    "written", ["", "socks5://127.0.0.1:1", "https://proxy.example", "proxy.example:port"]
)
def test_unsupported_upstream_proxy_is_ignored(written: str) -> None:
    assert UpstreamProxy.from_environment({"ALL_PROXY": written}) is None


async def test_unreachable_host_returns_bad_gateway() -> None:
    async with listening(echo) as gone:
        pass
    async with a_proxy(f"127.0.0.1:{gone}") as port:
        answer = await asked(port, f"CONNECT 127.0.0.1:{gone} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"cannot be reached" in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: fine.example\r\n\r\n",
        b"GET https://fine.example/ HTTP/1.1\r\n\r\n",
        b"CONNECT fine.example HTTP/1.1\r\n\r\n",
        b"CONNECT fine.example:443:1 HTTP/1.1\r\n\r\n",
        b"CONNECT fine.example:443 HTTP/1.1\r\nBroken\x00Header\r\n\r\n",
        b"GET http://fine.example/ HTTP/1.1\r\nA: b\nHost: evil\r\n\r\n",
        b"GET http://fine.example\x7f/ HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01 tls\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_invalid_proxy_request_returns_bad_request(sent: bytes) -> None:
    async with a_proxy("fine.example") as port:
        assert (await asked(port, sent)).startswith(b"HTTP/1.1 400 ")


async def test_too_long_request_head_is_rejected() -> None:
    async with a_proxy("fine.example") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET http://fine.example/ HTTP/1.1\r\nA: " + b"x" * HEAD_BYTES_MAX)
        answer = await reader.readline()
        writer.close()
    assert answer == b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


async def test_interrupted_request_returns_bad_request() -> None:
    async with a_proxy("fine.example") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CONNECT fine")
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
