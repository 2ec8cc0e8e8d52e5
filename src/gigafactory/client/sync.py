"""The client of programs that wait: commands and scripts. It needs the standard library alone."""

import http.client
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from gigafactory.client.call import PATIENCE, Call, Reply, Wait, talk
from gigafactory.client.problems import Lost, Unreachable
from gigafactory.client.stream import SILENCE_S, Reader, Sent

T = TypeVar("T")

TIMEOUT_S = 30.0


class Client:
    """A coordinator at an address, for one token; refusals are raised as the domain names them."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        product: str | None = None,
        patience: Sequence[float] = PATIENCE,
    ) -> None:
        """Speak to this address; nothing is opened yet."""
        self.url = url.rstrip("/")
        self.product = product
        self._token = token
        self._patience = patience
        self._open: http.client.HTTPConnection | None = None

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

    def send(self, call: Call[T]) -> T:
        """The answer to a call, as a record.

        Raises Refused.
        """
        return call.read(self.fetch(call))

    def fetch(self, call: Call[T]) -> bytes:
        """The answer to a call, just as it came.

        Raises Refused.
        """
        going = talk(call, self._patience)
        step = next(going)
        while True:
            try:
                step = going.send(self._take(call, step))
            except StopIteration as end:
                body: bytes = end.value
                return body

    def _take(self, call: Call[T], step: str | Wait) -> Reply | Lost | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        try:
            with self._request(call, call.headers(self._token, self.product, step)) as response:
                return Reply(response.status, response.read(), _lower(response))
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Lost(f"the connection to {self.url} broke: {str(error) or type(error).__name__}")

    def follow(self, call: Call[T], *, after: str | None = None) -> Iterator[Sent]:
        """The events of a stream from the one after `after` on, until the reader has enough.

        A connection that breaks is opened again where it broke. Raises Refused.
        """
        reader = Reader(after, self._patience)
        while True:
            broke = "it was closed"
            try:
                yield from self._stream(call, reader)
            except (OSError, http.client.HTTPException, Unreachable) as error:
                broke = str(error) or type(error).__name__
            finally:
                self.close()
            time.sleep(reader.pause(f"the stream from {self.url} broke: {broke}"))

    def _stream(self, call: Call[T], reader: Reader) -> Iterator[Sent]:
        headers = call.headers(self._token, self.product, "") | reader.headers()
        self.close()
        with self._request(call, headers, timeout_s=SILENCE_S) as response:
            if response.status != http.client.OK:
                Reply(response.status, response.read(), _lower(response)).require_ok()
                return
            while line := response.readline():
                sent = reader.feed(line.decode().rstrip("\r\n"))
                if sent is not None:
                    yield sent

    def _request(
        self, call: Call[T], headers: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
    ) -> http.client.HTTPResponse:
        connection = self._connection(timeout_s)
        connection.request(call.method, call.target, call.body, dict(headers))
        return connection.getresponse()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._open is None:
            at = urlsplit(self.url)
            kind = (
                http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
            )
            self._open = kind(at.hostname or "", at.port, timeout=timeout_s)
            try:
                self._open.connect()
            except OSError as error:
                self.close()
                raise Unreachable(f"cannot reach {self.url}: {error.strerror or error}") from None
        return self._open


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
