"""Answers that leave whole: uvicorn writes the head of one and then its body, here both go at once.

Each write is a call of the system, a packet, and a waking of whoever waits for the answer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1.1 "


class SingleWrite(HttpToolsProtocol):
    """Uvicorn's protocol over a transport that keeps a head back for its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep back heads from now on."""
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]


class _Joining:
    """A transport whose writes are the other's, but for a head: that goes with what follows it.

    Where nothing follows in the same turn of the event loop, as on a stream, it goes alone.
    """

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        return getattr(self._transport, name)
