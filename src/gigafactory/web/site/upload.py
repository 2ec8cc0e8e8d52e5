"""A file on its way from a browser: kept aside until all of it is there and its hash is known."""

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


class Upload(NamedTuple):
    """All bytes of a file."""

    file: IO[bytes]
    size: int
    sha256: str

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes, from the first on."""
        await asyncio.to_thread(self.file.seek, 0)
        while piece := await asyncio.to_thread(self.file.read, PIECE_BYTES):
            yield piece


@asynccontextmanager
async def kept(pieces: AsyncIterator[bytes], *, bytes_max: int) -> AsyncIterator[Upload]:
    """The file that these bytes make, for as long as the block lasts.

    Raises TooLarge; Conflict for what does not end.
    """
    file = await open_in_thread(tempfile.TemporaryFile)
    try:
        try:
            async with asyncio.timeout(UPLOAD_LASTS_MAX_S):
                upload = await _filled(file, pieces, bytes_max)
        except TimeoutError:
            raise Conflict(
                f"it did not all come within {UPLOAD_LASTS_MAX_S:g} s; send it again"
            ) from None
        yield upload
    finally:
        file.close()


async def _filled(file: IO[bytes], pieces: AsyncIterator[bytes], bytes_max: int) -> Upload:
    digest, size = hashlib.sha256(), 0
    async for piece in pieces:
        size += len(piece)
        require_size(size, bytes_max=bytes_max)
        digest.update(piece)
        await asyncio.to_thread(file.write, piece)
    return Upload(file, size, digest.hexdigest())
