"""A minimal HTTP proxy that checks the host of each request: CONNECT and plain http."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

from gigafactory.factory.sandbox.allow_list import Destination
from gigafactory.factory.sandbox.tunnel import StreamPair, join

HEAD_BYTES_MAX = 32 * 1024
HEAD_S_MAX = 30.0
_REQUEST = re.compile(r"([A-Z]{1,20}) ([!-~]{1,8000}) HTTP/1\.[01]")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_NOT_PASSED_ON = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"}
)
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ProxyRefused(Exception):  # noqa: N818 - named after what happened
    """A request was refused or failed; the message explains it to the client."""

    def __init__(self, message: str, *, status: str = "502 Bad Gateway") -> None:
        super().__init__(message)
        self.status = status

    @property
    def forbidden(self) -> bool:
        """Whether our policy refused it, and not a failure on the way."""
        return self.status.startswith("403")


Connect = Callable[[Destination], Awaitable[StreamPair]]


class HttpProxyServer:
    """Serves connections, one request each."""

    def __init__(self, connect: Connect) -> None:
        """`connect` connects to an allowed host and raises ProxyRefused for others."""
        self._connect = connect

    async def serve(self, inside: StreamPair) -> None:
        """Serve one connection until it ends.

        Raises OSError if it breaks.
        """
        try:
            request, headers = await _head(inside.reader)
            outside, first = await self._open(request, headers)
        except ProxyRefused as refused:
            await _answer(inside.writer, refused)
            return
        to, data = (inside, ESTABLISHED) if first is None else (outside, first)
        to.writer.write(data)
        await join(inside, outside)

    async def _open(self, request: str, headers: list[str]) -> tuple[StreamPair, bytes | None]:
        """Return the requested connection, and what to send there first, if anything."""
        match = _REQUEST.fullmatch(request)
        if match is None:
            raise _malformed("this is not a proxy request")
        method, target = match[1], match[2]
        if method == "CONNECT":
            return await self._connect(_destination(target, None)), None
        url = _url(target)
        if url.scheme.lower() != "http":
            raise _malformed("this is a proxy: request http://host/path, or CONNECT host:port")
        to = _destination(url.netloc.rpartition("@")[2], 80)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        # Use the host that was checked, whatever else the request claims.
        lines = [f"{method} {path} HTTP/1.1", f"Host: {_authority(to)}", "Connection: close"]
        passed_on = [
            each for each in headers if each.partition(":")[0].lower() not in _NOT_PASSED_ON
        ]
        return await self._connect(to), "\r\n".join([*lines, *passed_on, "", ""]).encode("latin-1")


async def _head(reader: asyncio.StreamReader) -> tuple[str, list[str]]:
    try:
        async with asyncio.timeout(HEAD_S_MAX):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise ProxyRefused(
            f"the head of a request has at most {HEAD_BYTES_MAX} bytes",
            status="431 Request Header Fields Too Large",
        ) from None
    except asyncio.IncompleteReadError:
        raise _malformed("the request is incomplete") from None
    except TimeoutError:
        raise ProxyRefused("the request took too long", status="408 Request Timeout") from None
    request, *headers = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if not all(map(_HEADER.fullmatch, headers)):
        raise _malformed("a header of the request is invalid")
    return request, headers


def _url(target: str) -> SplitResult:
    try:
        return urlsplit(target)
    except ValueError as wrong:
        raise _malformed(str(wrong)) from None


def _destination(written: str, default_port: int | None) -> Destination:
    try:
        return Destination.parse(written, default_port)
    except ValueError as wrong:
        raise _malformed(str(wrong)) from None


def _authority(to: Destination) -> str:
    return str(to).removesuffix(":80")


def _malformed(why: str) -> ProxyRefused:
    return ProxyRefused(why, status="400 Bad Request")


async def _answer(writer: asyncio.StreamWriter, refused: ProxyRefused) -> None:
    body = f"{refused}\n".encode()
    writer.write(
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )
    await writer.drain()
