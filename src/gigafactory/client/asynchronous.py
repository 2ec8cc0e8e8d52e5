"""The client of programs that do many things at once: factories and the terminal."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self, TypeVar

import httpx

from gigafactory.client.call import PATIENCE, Call, Reply, Wait, talk
from gigafactory.client.problems import Lost, Unreachable
from gigafactory.client.stream import SILENCE_S, Reader, Sent

T = TypeVar("T")

TIMEOUT_S = 30.0


class AsyncClient:
    """A coordinator at an address, for one token; refusals are raised as the domain names them."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        product: str | None = None,
        patience: Sequence[float] = PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Speak to this address; nothing is opened yet."""
        self.url = url.rstrip("/")
        self.product = product
        self._token = token
        self._patience = patience
        self._http = httpx.AsyncClient(timeout=TIMEOUT_S, transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """The answer to a call, as a record.

        Raises Refused.
        """
        return call.read(await self.fetch(call))

    async def fetch(self, call: Call[T]) -> bytes:
        """The answer to a call, just as it came.

        Raises Refused.
        """
        going = talk(call, self._patience)
        step = next(going)
        while True:
            try:
                step = going.send(await self._take(call, step))
            except StopIteration as end:
                body: bytes = end.value
                return body

    async def _take(self, call: Call[T], step: str | Wait) -> Reply | Lost | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        headers = call.headers(self._token, self.product, step)
        try:
            response = await self._http.request(
                call.method, self.url + call.target, content=call.body, headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"cannot reach {self.url}: {error}") from None
        except httpx.TransportError as error:
            return Lost(f"the connection to {self.url} broke: {str(error) or type(error).__name__}")
        return Reply(response.status_code, response.content, response.headers)

    async def follow(self, call: Call[T], *, after: str | None = None) -> AsyncIterator[Sent]:
        """The events of a stream from the one after `after` on, until the reader has enough.

        A connection that breaks is opened again where it broke. Raises Refused.
        """
        reader = Reader(after, self._patience)
        while True:
            broke = "it was closed"
            try:
                async for sent in self._stream(call, reader):
                    yield sent
            except httpx.TransportError as error:
                broke = str(error) or type(error).__name__
            await asyncio.sleep(reader.pause(f"the stream from {self.url} broke: {broke}"))

    async def _stream(self, call: Call[T], reader: Reader) -> AsyncIterator[Sent]:
        headers = call.headers(self._token, self.product, "") | reader.headers()
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        url = self.url + call.target
        async with self._http.stream(
            call.method, url, headers=headers, timeout=timeout
        ) as response:
            if response.status_code != httpx.codes.OK:
                body = await response.aread()
                Reply(response.status_code, body, response.headers).require_ok()
                return
            async for line in response.aiter_lines():
                sent = reader.feed(line)
                if sent is not None:
                    yield sent
