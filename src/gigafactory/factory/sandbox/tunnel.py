"""Two connections joined: what comes from the one goes to the other, until both have ended."""

import asyncio
import contextlib
from typing import NamedTuple

CHUNK_BYTES = 64 * 1024


class Ends(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def joined(one: Ends, other: Ends) -> None:
    """Pass everything on; when one direction breaks, both connections are closed."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_passed_on(one.reader, other.writer))
            both.create_task(_passed_on(other.reader, one.writer))
    except* OSError:
        pass
    finally:
        for end in (one, other):
            end.writer.close()


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    # One side may have said all, and still listen.
    with contextlib.suppress(OSError):
        writer.write_eof()
