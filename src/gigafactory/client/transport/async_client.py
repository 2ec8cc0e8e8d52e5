"""Asynchronous client, over httpx."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import httpx

from gigafactory.client.transport.call import (
    RETRY_DELAYS_S,
    ApiCall,
    Reply,
    UploadSource,
    Wait,
    call_steps,
)
from gigafactory.client.transport.headers import is_this_machine
from gigafactory.client.transport.problems import ConnectionBroken, Unreachable
from gigafactory.client.transport.sse import SILENCE_S, ServerEvent, SseParser
from gigafactory.domain.errors import Unauthenticated
from gigafactory.system.tls import tls_context

T = TypeVar("T")

TIMEOUT_S = 30.0
ROTATED_WITHIN_S = (0.0, 0.2, 1.0, 3.0)
"""Delays between looks for a newer token after the current one is refused."""


class AsyncClient:
    """A connection to one coordinator with one token; raises refusals as domain errors."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        product: str | None = None,
        latest: Callable[[], str | None] = lambda: None,
        retry_delays: Sequence[float] = RETRY_DELAYS_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare for this address; opens no connection yet.

        `latest` reads the stored token, in case the current one is refused after a rotation.
        """
        self.url = url.rstrip("/")
        self.product = product
        self._token = token
        self._latest = latest
        self._retry_delays = retry_delays
        # A proxy from the environment cannot reach this machine by its loopback address.
        use_proxy = not is_this_machine(urlsplit(url).hostname or "")
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT_S, transport=transport, trust_env=use_proxy, verify=tls_context()
        )

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
        """Close all connections."""
        await self._http.aclose()

    async def send(self, call: ApiCall[T]) -> T:
        """Send a call and return its decoded response.

        Raises Refused.
        """
        return call.decode(await self.fetch(call))

    async def fetch(self, call: ApiCall[T]) -> bytes:
        """Send a call and return the raw response body.

        Raises Refused.
        """
        return (await self.reply(call)).body

    async def reply(self, call: ApiCall[T]) -> Reply:
        """Send a call and return the whole reply with its headers.

        Raises Refused.
        """
        while True:
            used = self._token
            try:
                return await self._send_with_retries(call)
            except Unauthenticated:
                if not await self._find_newer_token(used):
                    raise

    async def _find_newer_token(self, used: str | None) -> bool:
        """Return whether a newer token than the refused one was found."""
        for pause in ROTATED_WITHIN_S:
            await asyncio.sleep(pause)
            if self._token == used:
                self._token = self._latest() or used
            if self._token != used:
                return True
        return False

    async def _send_with_retries(self, call: ApiCall[T]) -> Reply:
        steps = call_steps(call, self._retry_delays)
        step = next(steps)
        while True:
            try:
                step = steps.send(await self._do_step(call, step))
            except StopIteration as end:
                reply: Reply = end.value
                return reply

    async def _do_step(self, call: ApiCall[T], step: str | Wait) -> Reply | ConnectionBroken | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        headers = call.headers(self._token, self.product, step)
        content = call.body if call.file is None else _read_in_thread(call.file)
        try:
            response = await self._http.request(
                call.method, self.url + call.target, content=content, headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"cannot reach {self.url}: {error}") from None
        except httpx.RequestError as error:
            # Also for a body that cannot be decoded, such as one that a proxy cut off.
            return _connection_broken(self.url, error)
        # A response and its stream form a reference cycle, which would keep the request body in
        # memory until the next garbage collection.
        response.stream = httpx.ByteStream(b"")
        return Reply(response.status_code, response.content, response.headers)

    async def pieces(self, call: ApiCall[bytes]) -> AsyncIterator[bytes]:
        """Send a call and stream the response body, for large responses.

        Raises Refused; ConnectionBroken when the response is incomplete.
        """
        headers = call.headers(self._token, self.product, "")
        try:
            async with self._http.stream(
                call.method, self.url + call.target, headers=headers
            ) as response:
                if response.status_code != httpx.codes.OK:
                    body = await response.aread()
                    Reply(response.status_code, body, response.headers).require_ok()
                async for piece in response.aiter_raw():
                    yield piece
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(f"cannot reach {self.url}: {error}") from None
        except httpx.RequestError as error:
            raise _connection_broken(self.url, error) from None

    async def follow(
        self, call: ApiCall[T], *, after: str | None = None
    ) -> AsyncGenerator[ServerEvent, None]:
        """Follow a stream of events after the event `after`; resume it when the connection breaks.

        Raises Refused.
        """
        reader = SseParser(after, self._retry_delays)
        while True:
            broke, used = "it was closed", self._token
            try:
                async for event in self._stream(call, reader):
                    yield event
            except httpx.RequestError as error:
                broke = str(error) or type(error).__name__
            except Unauthenticated:
                if not await self._find_newer_token(used):
                    raise
                continue
            await asyncio.sleep(reader.pause(f"the stream from {self.url} broke: {broke}"))

    async def _stream(self, call: ApiCall[T], reader: SseParser) -> AsyncIterator[ServerEvent]:
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
                event = reader.feed(line)
                if event is not None:
                    yield event


async def _read_in_thread(file: UploadSource) -> AsyncIterator[bytes]:
    """Read a file's chunks in a thread."""
    pieces = file.pieces()
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _connection_broken(url: str, error: httpx.RequestError) -> ConnectionBroken:
    return ConnectionBroken(f"the connection to {url} broke: {str(error) or type(error).__name__}")
