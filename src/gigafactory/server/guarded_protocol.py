"""HTTP for clients that nobody knows yet: bounds the size and time of every request."""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import httptools
from uvicorn import Config
from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from gigafactory.api.http.errors import PROBLEM, TITLES
from gigafactory.api.http.request import KNOWN
from gigafactory.api.http.response import encode
from gigafactory.api.http.sse import LAST_PIECE_IF_SLOW
from gigafactory.server.connections import ConnectionLimits, OpenConnections
from gigafactory.server.uvicorn_protocol import SingleWriteProtocol
from gigafactory.system.log_throttle import LogThrottle
from gigafactory.wire.problem import Problem


class Refusal(NamedTuple):
    """An answer of the protocol itself, before the application knows of the request."""

    status: int
    reason: str
    code: str
    detail: str

    def encode(self) -> bytes:
        """Return the whole response, which ends the connection."""
        problem = Problem(
            type=f"urn:gigafactory:problem:{self.code}",
            title=TITLES[self.status],
            status=self.status,
            detail=self.detail,
            code=self.code,
            request_id=None,
        )
        body = encode(problem)
        retry = "retry-after: 5\r\n" if self.status == BUSY.status else ""
        head = (
            f"HTTP/1.1 {self.status} {self.reason}\r\ncontent-type: {PROBLEM}\r\n"
            f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
        )
        return head.encode("ascii") + body


MALFORMED = Refusal(400, "Bad Request", "malformed", "this is not a valid HTTP request")
TIMED_OUT = Refusal(
    408, "Request Timeout", "timed_out", "the request did not arrive in time; send it again"
)
HEAD_TOO_LARGE = Refusal(
    431,
    "Request Header Fields Too Large",
    "head_too_large",
    "the request line and headers are too large; send less",
)
BUSY = Refusal(
    503, "Service Unavailable", "busy", "too many connections are open; try again in a moment"
)


class GuardedProtocol(SingleWriteProtocol):
    """Uvicorn's protocol with limits; it answers 400, 408 and 431 itself."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        open_connections: OpenConnections,
        log: LogThrottle,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._open = open_connections
        self._log = log
        self._address = ""
        self._trailers: list[tuple[bytes, bytes]] = []
        """Takes the headers after a body: the application has seen all headers by then."""
        self.headers = self._trailers
        self._in_body = False
        self._received_any = False
        self._body_bytes = self._body_bytes_before = self._unread_bytes = 0
        self._since_progress = 0
        """Bytes since the end of a head, a piece of a body, or the end of a message."""
        self._refusal = MALFORMED
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    @property
    def _in_head(self) -> bool:
        # Uvicorn makes a new list at the start of each request.
        return self.headers is not self._trailers

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else "unknown"
        self._open.add(self._address, self)
        self._arm(self._limits.head_s, self._head_is_late)

    def is_known(self) -> bool:
        # The next request of a client may have begun before the answer to the one before.
        cycle: RequestResponseCycle | None = self.cycle
        begun: HTTPScope | None = self.scope
        answered = cycle.scope if cycle else None
        return any(each is not None and KNOWN in each["state"] for each in (begun, answered))

    def make_way(self) -> None:
        self._disarm()
        if self._answering() is not None or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.write(BUSY.encode())
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.remove(self._address, self)
        self._disarm()
        self.resume_writing()
        # Uvicorn leaves this timer running after an error.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._received_any = True
        self._since_progress += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing is upgraded here; what follows would not be HTTP.
            self._disarm()
            self.cycle.keep_alive = False
            return
        except httptools.HttpParserError:
            self._refuse(self._refusal)
            return
        if not (self._in_body or self._since_progress or self._in_head):
            return
        if self._in_body and self._answering() is None:
            # Counted here, as a chunk of one byte may have a long extension.
            self._unread_bytes += len(data)
        if self._unread_bytes > self._limits.unread_bytes:
            self.transport.close()
        elif self._since_progress > self._limits.head_bytes:
            self._refuse(HEAD_TOO_LARGE if self._in_head else MALFORMED)
        elif len(self.headers) > self._limits.headers:
            self._refuse(HEAD_TOO_LARGE)
        else:
            self._watch()

    def _watch(self) -> None:
        """Start the timer of what is incomplete, unless it runs already."""
        if self._timer is not None or self.transport.is_closing():
            return
        if self._in_body:
            self._body_bytes_before = self._body_bytes
            self._arm(self._limits.body_s, self._check_body)
        elif self._in_head or self._answering() is None:
            # Bytes that are no request yet, such as empty lines, count as a head too.
            self._arm(self._limits.head_s, self._head_is_late)

    def on_headers_complete(self) -> None:
        self._check_head()
        super().on_headers_complete()
        self.headers = self._trailers
        self.headers.clear()
        if self._timer is not None:
            self._disarm()
        self._since_progress = 0
        self._in_body = True
        self._body_bytes = self._unread_bytes = 0

    def _check_head(self) -> None:
        """Refuse a head that is too large or ambiguous, by an error for the parser."""
        names_and_values = chain.from_iterable(self.headers)
        size = len(self.url) + sum(map(len, names_and_values)) + 4 * len(self.headers)
        if size > self._limits.head_bytes or len(self.headers) > self._limits.headers:
            self._refusal = HEAD_TOO_LARGE
            raise ValueError
        # A proxy and we might choose different hosts.
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or len(self.pipeline) >= self._limits.pipelined:
            raise ValueError

    def on_body(self, body: bytes) -> None:
        self._since_progress = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._timer is not None:
            self._disarm()
        self._since_progress = 0
        self._in_body = False
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(self._limits.send_s, self._stop_sending)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _stop_sending(self) -> None:
        """End the connection; a stream ends with a mark for a client that still reads."""
        self._send_timer = None
        answering = self._answering()
        last = answering.scope.get(LAST_PIECE_IF_SLOW) if answering else None
        if answering is None or not isinstance(last, bytes) or not answering.chunked_encoding:
            self._log.warn("ended a connection that reads nothing", address=self._address)
            self.transport.abort()
            return
        self._log.warn("ended a stream whose client reads too slowly", address=self._address)
        # From here on, the application can send no more.
        answering.disconnected = True
        answering.message_event.set()
        self.transport.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
        self.transport.close(within_s=self._limits.last_piece_s)  # type: ignore[call-arg]

    def _answering(self) -> RequestResponseCycle | None:
        """Return the request that has no complete response yet."""
        # Uvicorn's annotation hides that there is none before the first request.
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def _head_is_late(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            # We read nothing, so the client cannot be late.
            self._arm(self._limits.head_s, self._head_is_late)
        elif self._received_any:
            self._refuse(TIMED_OUT)
        else:
            self.transport.close()

    def _check_body(self) -> None:
        self._timer = None
        arrived = self._body_bytes - self._body_bytes_before
        if self.flow.read_paused or arrived >= self._limits.body_bytes:
            self._body_bytes_before = self._body_bytes
            self._arm(self._limits.body_s, self._check_body)
        else:
            self._refuse(TIMED_OUT)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer if no other answer has begun, and end the connection."""
        self._disarm()
        self._log.warn(
            "refused a request", address=self._address, status=refusal.status, code=refusal.code
        )
        answering = self._answering()
        response_begun = answering.response_started if answering else self._in_body
        if not response_begun:
            self.transport.write(refusal.encode())
        self.transport.close()

    def _arm(self, seconds: float, then: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
