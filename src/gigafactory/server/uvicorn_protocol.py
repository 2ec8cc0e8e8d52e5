"""Send the head and body of a response in one write.

Uvicorn writes them separately: two system calls, two packets and two wake-ups of the client.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/1.1 "
CLOSE_WITHIN_S = 10.0
"""A client that does not read what was written before the end is cut off."""


class SingleWriteProtocol(HttpToolsProtocol):
    """Uvicorn's protocol over a transport that buffers the head until the body follows."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_HeadBuffer(transport, self.loop))  # type: ignore[arg-type]


class _HeadBuffer:
    """A transport that sends a buffered head together with the next write.

    If nothing follows in the same turn of the event loop, as on a stream, the head is sent alone.
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

    def close(self, within_s: float = CLOSE_WITHIN_S) -> None:
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(within_s, self._transport.abort)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - delegates to the transport
        return getattr(self._transport, name)
