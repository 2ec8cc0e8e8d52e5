"""Writes to the stdin of a program that may never read."""

import asyncio
from typing import IO

UNREAD_BYTES_MAX = 1024 * 1024
"""How much a program may leave unread before we stop reading its output."""


class Stdin(asyncio.BaseProtocol):
    """A program's stdin; unread data waits here and blocks nothing else."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()

    @classmethod
    async def open(cls, pipe: IO[bytes], first: bytes, *, stays_open: bool) -> "Stdin":
        """Write `first`, and close unless more may follow."""
        loop = asyncio.get_running_loop()
        transport, stdin = await loop.connect_write_pipe(cls, pipe)
        stdin._transport = transport  # noqa: SLF001 - it is our own
        transport.set_write_buffer_limits(high=len(first) + UNREAD_BYTES_MAX)
        if first:
            transport.write(first)
        if not stays_open:
            transport.close()
        return stdin

    async def write(self, data: bytes) -> None:
        """Write data; empty data closes stdin. Waits while too much is unread."""
        if self._transport is None or self._transport.is_closing():
            return
        if not data:
            self._transport.close()
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            # Some event loops update the buffer size only in their next iteration.
            await asyncio.sleep(0)
        await self._room.wait()

    def abort(self) -> None:
        """Drop what was not read."""
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._room.clear()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._room.set()

    def connection_lost(self, _error: Exception | None) -> None:
        """See asyncio."""
        self._transport = None
        self._room.set()
