"""The client of programs that wait: commands and scripts; it is there at once."""

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
    """A coordinator at an address, for one token; refusals are raised as the domain names them."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        product: str | None = None,
        patience: Sequence[float] = RETRY_DELAYS_S,
    ) -> None:
        """Speak to this address; nothing is opened yet."""
        self.url = url.rstrip("/")
        self.product = product
        self._token = token
        self._patience = patience
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
        """Let the connection go."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def send(self, call: ApiCall[T]) -> T:
        """The answer to a call, as a record.

        Raises Refused.
        """
        return call.decode(self.fetch(call))

    def fetch(self, call: ApiCall[T]) -> bytes:
        """The answer to a call, just as it came.

        Raises Refused.
        """
        going = call_steps(call, self._patience)
        step = next(going)
        while True:
            try:
                step = going.send(self._take(call, step))
            except StopIteration as end:
                reply: Reply = end.value
                return reply.body

    def _take(self, call: ApiCall[T], step: str | Wait) -> Reply | ConnectionBroken | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        headers = call.headers(self._token, self.product, step)
        pieces = call.file.pieces() if call.file is not None else ()
        try:
            connection = self._connection(TIMEOUT_S)
            answer = connection.ask(call.method, call.target, call.body, headers, pieces)
            reply = Reply(answer.status, answer.read(), answer.headers)
        except OSError as error:
            self.close()
            return _lost(self.url, error)
        if not answer.reusable:
            self.close()
        return reply

    def pieces(self, call: ApiCall[bytes]) -> Iterator[bytes]:
        """The answer to a call as it comes, for what may be large.

        Raises Refused; ConnectionBroken when the response is incomplete.
        """
        headers = call.headers(self._token, self.product, "")
        self.close()
        try:
            answer = self._connection(TIMEOUT_S).ask(call.method, call.target, None, headers)
            if answer.status != OK:
                Reply(answer.status, answer.read(), answer.headers).require_ok()
            yield from answer.pieces()
        except OSError as error:
            raise _lost(self.url, error) from None
        finally:
            self.close()

    def follow(self, call: ApiCall[T], *, after: str | None = None) -> Iterator[ServerEvent]:
        """The events of a stream from the one after `after` on, until the reader has enough.

        A connection that breaks is opened again where it broke. Raises Refused.
        """
        reader = SseParser(after, self._patience)
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
        answer = self._connection(SILENCE_S).ask(call.method, call.target, call.body, headers)
        if answer.status != OK:
            Reply(answer.status, answer.read(), answer.headers).require_ok()
            return
        for line in answer.lines():
            sent = reader.feed(line)
            if sent is not None:
                yield sent

    def _connection(self, timeout_s: float) -> Connection:
        if self._open is None:
            self._open = connect(self.url, timeout_s)
        return self._open


def _lost(url: str, error: OSError) -> ConnectionBroken:
    return ConnectionBroken(f"the connection to {url} broke: {str(error) or type(error).__name__}")
