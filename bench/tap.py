"""A proxy between a coordinator and PostgreSQL that counts statements and bytes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

PIECE = 1 << 16


class Tap:
    """Forwards all data and counts statements by text, and bytes in both directions."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self.queries: Counter[str] = Counter()
        self.bytes = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side closes it."""
        responses, requests = await asyncio.open_connection(*self._to)
        pumps = [
            asyncio.create_task(self._forward(reader, requests, _StatementCounter(self.queries))),
            asyncio.create_task(self._forward(responses, writer, None)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (requests, writer):
                end.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        counter: "_StatementCounter | None",
    ) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE):
                self.bytes += len(piece)
                if counter is not None:
                    counter.take(piece)
                writer.write(piece)
                await writer.drain()


class _StatementCounter:
    """Counts executed statements in the messages of one client."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._rest = b""
        self._started = False
        self._texts: dict[bytes, str] = {}
        self._bound = ""

    def take(self, piece: bytes) -> None:
        self._rest += piece
        while (size := self._size()) and len(self._rest) >= size:
            message, self._rest = self._rest[:size], self._rest[size:]
            if self._started:
                self._count(message[:1], message[5:])
            self._started = True

    def _size(self) -> int:
        # The startup message has no type byte before its length.
        start = 1 if self._started else 0
        length = self._rest[start : start + 4]
        return start + int.from_bytes(length) if len(length) == 4 else 0

    def _count(self, letter: bytes, content: bytes) -> None:
        match letter:
            case b"P":
                name, text, _ = content.split(b"\0", 2)
                self._texts[name] = text.decode()
            case b"B":
                self._bound = self._texts[content.split(b"\0", 2)[1]]
            case b"E":
                self._counts[self._bound] += 1
            case b"Q":
                self._counts[content.rstrip(b"\0").decode()] += 1
            case _:
                pass


@asynccontextmanager
async def tapped(dsn: str) -> AsyncIterator[tuple[str, Tap]]:
    """Run a tap in front of this database; yield its address and the tap."""
    parts = urlsplit(dsn)
    tap = Tap(parts.hostname or "127.0.0.1", parts.port or 5432)
    server = await asyncio.start_server(tap.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    netloc = f"{parts.username}@127.0.0.1:{port}"
    try:
        # Without encryption: the tap could not read encrypted messages.
        yield parts._replace(netloc=netloc, query="sslmode=disable").geturl(), tap
    finally:
        server.close()
