"""A follower that reads too slowly gets an end that it recognises, or is cut off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from litestar import Litestar, Request, get
from litestar.datastructures import State
from litestar.types import ASGIApp

from gigafactory.api.http.sse import EventStream, OpenStreams, TokenStreams, frame
from gigafactory.server.connections import ConnectionLimits
from tests.support.api_server import serving
from tests.support.polling import until

LIMITS = ConnectionLimits(send_s=0.2, last_piece_s=60)
ASK = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
EVENT = frame({"text": "x" * 10_000}, event="note")
END = b'event: slow\ndata: {"reason":"slow"}\n\n\r\n0\r\n\r\n'


async def events() -> AsyncIterator[bytes]:
    """Yield more than all buffers hold, until the client reads nothing of it."""
    while True:
        yield EVENT


@get("/")
async def follow(request: Request[None, None, State]) -> ASGIApp:
    """Stream events without end."""
    streams: OpenStreams = request.app.state.streams
    return EventStream(events(), TokenStreams(streams, "t"))


@asynccontextmanager
async def a_flood(
    limits: ConnectionLimits,
) -> AsyncIterator[tuple[OpenStreams, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Follow a stream; the client reads nothing at first."""
    app = Litestar([follow], openapi_config=None)
    app.state.streams = streams = OpenStreams()
    async with serving(app, limits) as url:
        at = urlsplit(url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(ASK)
        await until(lambda: len(streams) == 1)
        yield streams, reader, writer
        writer.close()


async def test_the_stream_of_a_slow_follower_ends_with_a_mark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_flood(LIMITS) as (streams, reader, writer):
        await until(lambda: len(streams) == 0)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            received = await reader.read()
    assert received.endswith(END)
    assert received.count(EVENT) == received.count(b"event: note")
    assert caplog.text == ""


async def test_a_follower_that_never_reads_again_is_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_flood(replace(LIMITS, last_piece_s=0.05)) as (streams, reader, writer):
        await until(lambda: len(streams) == 0)
        await until(lambda: _is_cut_off(writer))
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionError):
            await reader.read()
    assert caplog.text == ""


def _is_cut_off(writer: asyncio.StreamWriter) -> bool:
    writer.write(b"x")
    return writer.is_closing()
