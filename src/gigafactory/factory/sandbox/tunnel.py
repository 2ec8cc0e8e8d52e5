"""Joins two connections: data from either goes to the other until both have ended."""

import asyncio
import contextlib
from typing import NamedTuple

CHUNK_BYTES = 64 * 1024


class StreamPair(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def join(one: StreamPair, other: StreamPair) -> None:
    """Forward all data both ways; if one direction breaks, close both connections."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_forward(one.reader, other.writer))
            both.create_task(_forward(other.reader, one.writer))
    except* OSError:
        pass
    finally:
        for end in (one, other):
            end.writer.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    # One side may have finished sending and still read.
    with contextlib.suppress(OSError):
        writer.write_eof()
