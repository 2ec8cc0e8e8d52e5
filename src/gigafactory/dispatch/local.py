"""Message delivery over the streams that factories have open at this coordinator."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gigafactory.coordinator.core.ports import Message

UNREAD_MAX = 1000


class LocalDispatch:
    """One bounded queue per open stream; a stream that does not keep up is closed."""

    def __init__(self) -> None:
        # Dictionaries as ordered sets: delivery order must not depend on memory addresses.
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
