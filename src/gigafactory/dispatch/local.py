"""Offers over the streams that factories hold open to this coordinator."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gigafactory.coordinator.core.ports import Message

UNREAD_MAX = 1000


class LocalDispatch:
    """A bounded queue for each open stream; a stream that does not keep up is closed."""

    def __init__(self) -> None:
        """Begin with no stream open."""
        # Ordered, so that what happens does not depend on where in memory a stream lies.
        self._open: dict[str, dict[asyncio.Queue[Message | None], None]] = defaultdict(dict)

    def send(self, message: Message) -> None:
        for stream in tuple(self._open.get(message.factory_id, ())):
            if stream.qsize() >= UNREAD_MAX:
                self._close(message.factory_id, stream)
            else:
                stream.put_nowait(message)

    def close_streams(self, factory_id: str) -> None:
        for stream in tuple(self._open.get(factory_id, ())):
            self._close(factory_id, stream)

    def _close(self, factory_id: str, stream: asyncio.Queue[Message | None]) -> None:
        self._open[factory_id].pop(stream, None)
        stream.put_nowait(None)

    def stream_count(self, factory_id: str) -> int:
        return len(self._open.get(factory_id, ()))

    @asynccontextmanager
    async def open_stream(self, factory_id: str) -> AsyncIterator[AsyncIterator[Message]]:
        stream: asyncio.Queue[Message | None] = asyncio.Queue()
        self._open[factory_id][stream] = None
        try:
            yield _messages(stream)
        finally:
            self._open[factory_id].pop(stream, None)
            if not self._open[factory_id]:
                del self._open[factory_id]


async def _messages(stream: asyncio.Queue[Message | None]) -> AsyncIterator[Message]:
    while (message := await stream.get()) is not None:
        yield message
