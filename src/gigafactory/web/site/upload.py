"""Buffer an upload in a temporary file until it is complete and its hash is known."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, NamedTuple

from gigafactory.coordinator.files.artifacts import UPLOAD_LASTS_MAX_S
from gigafactory.domain.errors import Conflict
from gigafactory.domain.job.artifact import require_size
from gigafactory.system.threads import open_in_thread

PIECE_BYTES = 256 << 10


class BufferedUpload(NamedTuple):
    """A complete upload."""

    file: IO[bytes]
    size: int
    sha256: str

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content from the beginning."""
        await asyncio.to_thread(self.file.seek, 0)
        while piece := await asyncio.to_thread(self.file.read, PIECE_BYTES):
            yield piece


@asynccontextmanager
async def buffer_upload(
    pieces: AsyncIterator[bytes], *, bytes_max: int
) -> AsyncIterator[BufferedUpload]:
    """Buffer an upload for the duration of the block.

    Raises TooLarge; Conflict for an upload that takes too long.
    """
    file = await open_in_thread(tempfile.TemporaryFile)
    try:
        try:
            async with asyncio.timeout(UPLOAD_LASTS_MAX_S):
                upload = await _buffer(file, pieces, bytes_max)
        except TimeoutError:
            raise Conflict(
                f"the upload took longer than {UPLOAD_LASTS_MAX_S:g} s; try again"
            ) from None
        yield upload
    finally:
        file.close()


async def _buffer(file: IO[bytes], pieces: AsyncIterator[bytes], bytes_max: int) -> BufferedUpload:
    digest, size = hashlib.sha256(), 0
    async for piece in pieces:
        size += len(piece)
        require_size(size, bytes_max=bytes_max)
        digest.update(piece)
        await asyncio.to_thread(file.write, piece)
    return BufferedUpload(file, size, digest.hexdigest())
