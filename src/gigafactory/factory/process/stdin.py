"""Writing to a program that may never read."""

import asyncio
from typing import IO

UNREAD_BYTES_MAX = 1024 * 1024
"""How much a program may leave unread of our answers before we hear it no further."""


class Stdin(asyncio.BaseProtocol):
    """The way into a program; what it does not read waits here and blocks nobody else."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()

    @classmethod
    async def open(cls, pipe: IO[bytes], first: bytes, *, stays_open: bool) -> "Stdin":
        """Write `first`, and close unless there is more to come."""
        loop = asyncio.get_running_loop()
        transport, stdin = await loop.connect_write_pipe(cls, pipe)
        stdin._transport = transport  # noqa: SLF001 - it is our own
        transport.set_write_buffer_limits(high=len(first) + UNREAD_BYTES_MAX)
        if first:
            transport.write(first)
        if not stays_open:
            transport.close()
        return stdin

    async def say(self, data: bytes) -> None:
        """Write an answer; an empty one closes. Waits while too much is unread."""
        if self._transport is None or self._transport.is_closing():
            return
        if not data:
            self._transport.close()
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            # Some loops look at how much has gathered only when they have their turn.
            await asyncio.sleep(0)
        await self._room.wait()

    def abandon(self) -> None:
        """Forget what was not read."""
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
