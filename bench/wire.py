"""A minimal HTTP/1.1 client, so that benchmarks measure the server and not the client."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec


class Wire:
    """A keep-alive connection with a token, for one request at a time."""

    def __init__(
        self,
        url: str,
        token: str,
        product: str = "bench",
        *,
        cookie: str | None = None,
        host: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._head = (
            f"host: {host or parts.netloc}\r\nauthorization: Bearer {token}\r\n"
            f"x-product-id: {product}\r\n"
        )
        if cookie is not None:
            self._head += f"cookie: {cookie}\r\naccept: text/html\r\n"
        self._url, self._token, self._product, self._cookie = url, token, product, cookie
        self._pages_host = host
        self.keyed = False
        """Whether each write carries an idempotency key, as those of real factories do."""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    def twin(self) -> "Wire":
        """Return another connection with the same token."""
        return Wire(
            self._url, self._token, self._product, cookie=self._cookie, host=self._pages_host
        )

    async def send(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> asyncio.StreamReader:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._host, self._port, limit=1 << 24
            )
        size = (
            f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n" if body is not None else ""
        )
        key = f"idempotency-key: {uuid.uuid4().hex}\r\n" if self.keyed and method != "GET" else ""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\n{self._head}{key}{size}\r\n".encode() + (body or b"")
        )
        assert self._reader is not None
        return self._reader

    async def raw(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        reader = await self.send(method, path, body, kind)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 : lower.index(b"\r\n", at)]) if at >= 0 else 0
        return status, await reader.readexactly(length) if length else b""

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the response as JSON, None if empty; an error response raises."""
        sent = None if body is None else msgspec.json.encode(body)
        status, answer = await self.raw(method, path, sent)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
        return msgspec.json.decode(answer) if answer else None

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """Yield the lines of an event stream."""
        reader = await self.send("GET", path, None, "")
        await reader.readuntil(b"\r\n\r\n")
        while line := await reader.readline():
            yield line.strip()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


@asynccontextmanager
async def wire(url: str, token: str) -> AsyncIterator[Wire]:
    made = Wire(url, token)
    try:
        yield made
    finally:
        made.close()
