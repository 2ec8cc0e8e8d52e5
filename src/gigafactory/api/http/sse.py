"""Server-sent events: frames, keep-alive comments, end marker."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from litestar.types import HTTPResponseBodyEvent, Receive, Scope, Send

from gigafactory.api.http.response import encode
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.insights.event_streams import EventBatch
from gigafactory.domain.errors import TooManyRequests
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import Caller

MEDIA_TYPE = "text/event-stream"
PING_S = 15.0
FRAMES_KEPT = 2000
STREAMS_PER_TOKEN = 1000
RETRY_AFTER_S = 5
LAST_PIECE_IF_SLOW = "gigafactory.last_piece_if_slow"
"""Where the scope of a request has the last piece for a client that reads too slowly.

The server sends it, because it alone can write beyond what it has buffered already.
"""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def frame(data: object, *, event: str | None = None, id_: int | None = None) -> bytes:
    """Encode one message with JSON data."""
    name = b"" if event is None else b"event: %s\n" % event.encode()
    number = b"" if id_ is None else b"id: %d\n" % id_
    return b"%s%sdata: %s\n\n" % (number, name, encode(data))


class FrameCache:
    """Cache of encoded events, shared by all followers."""

    def __init__(self) -> None:
        self._frames: OrderedDict[int, bytes] = OrderedDict()

    def frame(self, event: Event) -> bytes:
        """Return the encoded message of an event, without its id."""
        frame = self._frames.get(event.position)
        if frame is None:
            frame = b"event: %s\ndata: %s\n\n" % (
                event.type.encode(),
                encode(views.render_event(event)),
            )
            self._frames[event.position] = frame
            if len(self._frames) > FRAMES_KEPT:
                self._frames.popitem(last=False)
        return frame


async def event_frames(
    batches: AsyncIterator[EventBatch], cache: FrameCache, number: Callable[[Event], int]
) -> AsyncIterator[bytes]:
    """Encode followed events, each with its number; the last message gives the reason."""
    async for batch in batches:
        if batch.ended is not None:
            yield frame({"reason": batch.ended}, event=batch.ended)
            return
        yield b"".join(b"id: %d\n%s" % (number(e), cache.frame(e)) for e in batch.events)


class OpenStreams:
    """Registry of open streams: ends them when the server stops, and counts those of each token."""

    def __init__(self, per_token: int = STREAMS_PER_TOKEN) -> None:
        self._per_token = per_token
        self._ends: dict[asyncio.Future[None], str] = {}
        self._by_token: Counter[str] = Counter()

    def of(self, caller: Caller) -> "TokenStreams":
        """Return where to register a stream of the caller.

        Raises TooManyRequests if its token has too many open ones.
        """
        token = caller.token.id if caller.token else caller.actor
        if self._by_token[token] >= self._per_token:
            raise TooManyRequests(
                f"this token has {self._per_token} open streams; close some first", RETRY_AFTER_S
            )
        return TokenStreams(self, token)

    def register(self, token: str) -> asyncio.Future[None]:
        """Register a stream; return a future that is done when the server stops."""
        end = asyncio.get_running_loop().create_future()
        self._ends[end] = token
        self._by_token[token] += 1
        end.add_done_callback(self._forget)
        return end

    def _forget(self, end: asyncio.Future[None]) -> None:
        token = self._ends.pop(end)
        self._by_token[token] -= 1
        if not self._by_token[token]:
            del self._by_token[token]

    def close(self) -> None:
        """End all streams."""
        for end in tuple(self._ends):
            if not end.done():
                end.set_result(None)

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._ends)


class TokenStreams(NamedTuple):
    """The open streams of one token."""

    all: OpenStreams
    token: str

    def register(self) -> asyncio.Future[None]:
        """Register a stream; return a future that is done when the server stops."""
        return self.all.register(self.token)


class EventStream:
    """A streaming response, until its source ends, the client leaves or the server stops."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        open_streams: TokenStreams,
        *,
        then: Callable[[], Awaitable[object]] | None = None,
        ping_s: float = PING_S,
    ) -> None:
        """Send these chunks, and run `then` at the end in any case."""
        self._pieces = pieces
        self._open = open_streams
        self._then = then
        self._ping_s = ping_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        scope[LAST_PIECE_IF_SLOW] = _SLOW  # type: ignore[literal-required]
        stopped = self._open.register()
        pump = asyncio.create_task(self._pump(send))
        others = [
            asyncio.create_task(self._ping(send)),
            asyncio.create_task(_wait_for_disconnect(receive)),
        ]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await asyncio.wait({pump, stopped, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            for task in (pump, *others):
                task.cancel()
            await asyncio.gather(pump, *others, return_exceptions=True)
            if self._then is not None:
                await self._then()
        for task in (pump, *others):
            if not task.cancelled() and (fault := task.exception()):
                raise fault
        await send(_LAST_PIECE)

    async def _pump(self, send: Send) -> None:
        async for piece in self._pieces:
            await send(_piece(piece))

    async def _ping(self, send: Send) -> None:
        """Send keep-alive comments."""
        while True:
            await asyncio.sleep(self._ping_s)
            await send(_piece(b":\n\n"))


_SLOW = frame({"reason": "slow"}, event="slow")
_LAST_PIECE: HTTPResponseBodyEvent = {
    "type": "http.response.body",
    "body": b"",
    "more_body": False,
}


def _piece(body: bytes) -> HTTPResponseBodyEvent:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
