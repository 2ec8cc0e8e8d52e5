"""Blocking client for commands and scripts; starts fast."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

from gigafactory.client.transport.call import RETRY_DELAYS_S, ApiCall, Reply, Wait, call_steps
from gigafactory.client.transport.http_socket import Connection, connect
from gigafactory.client.transport.problems import ConnectionBroken, Unreachable
from gigafactory.client.transport.sse import SILENCE_S, ServerEvent, SseParser

T = TypeVar("T")

TIMEOUT_S = 30.0
OK = 200


class Client:
    """A connection to one coordinator with one token; raises refusals as domain errors."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        product: str | None = None,
        retry_delays: Sequence[float] = RETRY_DELAYS_S,
    ) -> None:
        """Prepare for this address; opens no connection yet."""
        self.url = url.rstrip("/")
        self.product = product
        self._token = token
        self._retry_delays = retry_delays
        self._open: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def send(self, call: ApiCall[T]) -> T:
        """Send a call and return its decoded response.

        Raises Refused.
        """
        return call.decode(self.fetch(call))

    def fetch(self, call: ApiCall[T]) -> bytes:
        """Send a call and return the raw response body.

        Raises Refused.
        """
        steps = call_steps(call, self._retry_delays)
        step = next(steps)
        while True:
            try:
                step = steps.send(self._do_step(call, step))
            except StopIteration as end:
                reply: Reply = end.value
                return reply.body

    def _do_step(self, call: ApiCall[T], step: str | Wait) -> Reply | ConnectionBroken | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        headers = call.headers(self._token, self.product, step)
        pieces = call.file.pieces() if call.file is not None else ()
        try:
            connection = self._connection(TIMEOUT_S)
            answer = connection.send_request(call.method, call.target, call.body, headers, pieces)
            reply = Reply(answer.status, answer.read(), answer.headers)
        except OSError as error:
            self.close()
            return _connection_broken(self.url, error)
        if not answer.reusable:
            self.close()
        return reply

    def pieces(self, call: ApiCall[bytes]) -> Iterator[bytes]:
        """Send a call and stream the response body, for large responses.

        Raises Refused; ConnectionBroken when the response is incomplete.
        """
        headers = call.headers(self._token, self.product, "")
        self.close()
        try:
            answer = self._connection(TIMEOUT_S).send_request(
                call.method, call.target, None, headers
            )
            if answer.status != OK:
                Reply(answer.status, answer.read(), answer.headers).require_ok()
            yield from answer.pieces()
        except OSError as error:
            raise _connection_broken(self.url, error) from None
        finally:
            self.close()

    def follow(self, call: ApiCall[T], *, after: str | None = None) -> Iterator[ServerEvent]:
        """Follow a stream of events after the event `after`; resume it when the connection breaks.

        Raises Refused.
        """
        reader = SseParser(after, self._retry_delays)
        while True:
            broke = "it was closed"
            try:
                yield from self._stream(call, reader)
            except (OSError, Unreachable) as error:
                broke = str(error) or type(error).__name__
            finally:
                self.close()
            time.sleep(reader.pause(f"the stream from {self.url} broke: {broke}"))

    def _stream(self, call: ApiCall[T], reader: SseParser) -> Iterator[ServerEvent]:
        headers = call.headers(self._token, self.product, "") | reader.headers()
        self.close()
        answer = self._connection(SILENCE_S).send_request(
            call.method, call.target, call.body, headers
        )
        if answer.status != OK:
            Reply(answer.status, answer.read(), answer.headers).require_ok()
            return
        for line in answer.lines():
            event = reader.feed(line)
            if event is not None:
                yield event

    def _connection(self, timeout_s: float) -> Connection:
        if self._open is None:
            self._open = connect(self.url, timeout_s)
        return self._open


def _connection_broken(url: str, error: OSError) -> ConnectionBroken:
    return ConnectionBroken(f"the connection to {url} broke: {str(error) or type(error).__name__}")
