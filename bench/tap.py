"""A look at the wire between a coordinator and its PostgreSQL: statements, and bytes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

PIECE = 1 << 16


class Tap:
    """Passes everything on, and counts: statements by their text, and bytes both ways."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self.asked: Counter[str] = Counter()
        self.bytes = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side leaves it."""
        answers, asks = await asyncio.open_connection(*self._to)
        pumps = [
            asyncio.create_task(self._carry(reader, asks, _Questions(self.asked))),
            asyncio.create_task(self._carry(answers, writer, None)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (asks, writer):
                end.close()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: "_Questions | None"
    ) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE):
                self.bytes += len(piece)
                if heard is not None:
                    heard.take(piece)
                writer.write(piece)
                await writer.drain()


class _Questions:
    """One client's half of the protocol: which statement is executed how often."""

    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked
        self._rest = b""
        self._begun = False
        self._texts: dict[bytes, str] = {}
        self._bound = ""

    def take(self, piece: bytes) -> None:
        self._rest += piece
        while (size := self._size()) and len(self._rest) >= size:
            message, self._rest = self._rest[:size], self._rest[size:]
            if self._begun:
                self._note(message[:1], message[5:])
            self._begun = True

    def _size(self) -> int:
        # The first message has no letter before its length.
        start = 1 if self._begun else 0
        told = self._rest[start : start + 4]
        return start + int.from_bytes(told) if len(told) == 4 else 0

    def _note(self, letter: bytes, content: bytes) -> None:
        match letter:
            case b"P":
                name, text, _ = content.split(b"\0", 2)
                self._texts[name] = text.decode()
            case b"B":
                self._bound = self._texts[content.split(b"\0", 2)[1]]
            case b"E":
                self._asked[self._bound] += 1
            case b"Q":
                self._asked[content.rstrip(b"\0").decode()] += 1
            case _:
                pass


@asynccontextmanager
async def tapped(dsn: str) -> AsyncIterator[tuple[str, Tap]]:
    """An address that leads to this database through a tap."""
    parts = urlsplit(dsn)
    tap = Tap(parts.hostname or "127.0.0.1", parts.port or 5432)
    server = await asyncio.start_server(tap.connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    netloc = f"{parts.username}@127.0.0.1:{port}"
    try:
        # Without encryption, which would be asked for first, and could not be looked into.
        yield parts._replace(netloc=netloc, query="sslmode=disable").geturl(), tap
    finally:
        server.close()
