"""An HTTP proxy, as far as it takes to judge each request by its host: CONNECT and plain http."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

from gigafactory.factory.sandbox.allow_list import Destination
from gigafactory.factory.sandbox.tunnel import Ends, joined

HEAD_BYTES_MAX = 32 * 1024
HEAD_S_MAX = 30.0
_REQUEST = re.compile(r"([A-Z]{1,20}) ([!-~]{1,8000}) HTTP/1\.[01]")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_NOT_PASSED_ON = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"}
)
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class CannotPass(Exception):  # noqa: N818 - named after what happened
    """A request goes no further; the message says why, in a sentence for whoever made it."""

    def __init__(self, message: str, *, status: str = "502 Bad Gateway") -> None:
        super().__init__(message)
        self.status = status

    @property
    def forbidden(self) -> bool:
        """Whether that is our own word, and not a trouble on the way."""
        return self.status.startswith("403")


Reach = Callable[[Destination], Awaitable[Ends]]


class Proxy:
    """Serves connections, one request each."""

    def __init__(self, reach: Reach) -> None:
        """`reach` connects to a host that may be reached, and raises CannotPass for others."""
        self._reach = reach

    async def serve(self, inside: Ends) -> None:
        """Serve one connection to its end.

        Raises OSError when it breaks.
        """
        try:
            request, headers = await _head(inside.reader)
            outside, first = await self._opened(request, headers)
        except CannotPass as refused:
            await _answer(inside.writer, refused)
            return
        to, data = (inside, ESTABLISHED) if first is None else (outside, first)
        to.writer.write(data)
        await joined(inside, outside)

    async def _opened(self, request: str, headers: list[str]) -> tuple[Ends, bytes | None]:
        """The connection that was asked for, and what is sent there first; None: nothing."""
        match = _REQUEST.fullmatch(request)
        if match is None:
            raise _malformed("this is no request for a proxy")
        method, target = match[1], match[2]
        if method == "CONNECT":
            return await self._reach(_destination(target, None)), None
        url = _url(target)
        if url.scheme.lower() != "http":
            raise _malformed("this is a proxy: ask for http://host/path, or CONNECT host:port")
        to = _destination(url.netloc.rpartition("@")[2], 80)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        # The host is the one that was judged, whatever the request says beside it.
        lines = [f"{method} {path} HTTP/1.1", f"Host: {_authority(to)}", "Connection: close"]
        kept = [each for each in headers if each.partition(":")[0].lower() not in _NOT_PASSED_ON]
        return await self._reach(to), "\r\n".join([*lines, *kept, "", ""]).encode("latin-1")


async def _head(reader: asyncio.StreamReader) -> tuple[str, list[str]]:
    try:
        async with asyncio.timeout(HEAD_S_MAX):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise CannotPass(
            f"a request's head has at most {HEAD_BYTES_MAX} bytes",
            status="431 Request Header Fields Too Large",
        ) from None
    except asyncio.IncompleteReadError:
        raise _malformed("the request has no end") from None
    except TimeoutError:
        raise CannotPass("the request took too long", status="408 Request Timeout") from None
    request, *headers = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if not all(map(_HEADER.fullmatch, headers)):
        raise _malformed("a header of the request cannot be read")
    return request, headers


def _url(target: str) -> SplitResult:
    try:
        return urlsplit(target)
    except ValueError as wrong:
        raise _malformed(str(wrong)) from None


def _destination(written: str, default_port: int | None) -> Destination:
    try:
        return Destination.of(written, default_port)
    except ValueError as wrong:
        raise _malformed(str(wrong)) from None


def _authority(to: Destination) -> str:
    return str(to).removesuffix(":80")


def _malformed(why: str) -> CannotPass:
    return CannotPass(why, status="400 Bad Request")


async def _answer(writer: asyncio.StreamWriter, refused: CannotPass) -> None:
    said = f"{refused}\n".encode()
    writer.write(
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(said)}\r\nConnection: close\r\n\r\n".encode()
        + said
    )
    await writer.drain()
