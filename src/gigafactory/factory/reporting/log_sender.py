"""A run's log on its way: a file on this machine first, and from there to the coordinator."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Fenced, LogGap, Refused, TooManyRequests, Unavailable

CHUNK_BYTES_MAX = 256 * 1024
EVERY_S = 2.0

log = structlog.get_logger()


class RunLog:
    """The log of one run, bounded on disk; it is the buffer for as long as nobody takes it."""

    def __init__(self, file: Path, bytes_max: int) -> None:
        """Write to this file; what goes beyond the bound is cut off, and a last line says so."""
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = file
        self._out = file.open("ab", buffering=0)
        self._size = self._out.tell()
        self._bytes_max = bytes_max
        self._truncated = False
        self._lost_bytes = 0
        """So many bytes found no room on the disk, and the log does not say so yet."""
        self.has_more = asyncio.Event()
        """Rung when there is something new to read."""
        self.ended = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether nothing more goes into it."""
        return self._truncated or self._size >= self._bytes_max

    def write(self, data: bytes) -> None:
        """Add to it; nothing of it may be a secret any more."""
        if self._truncated or not data:
            return
        room = self._bytes_max - self._size
        if len(data) > room:
            self._truncated = True
            data = data[:room] + f"\n[the log ends here: it has {self._bytes_max} bytes]\n".encode()
        if self._lost_bytes:
            gap = f"{self._lost_bytes} bytes of the log are missing here: the disk was full"
            notice = f"\n[{gap}]\n".encode()
            if self._write_available(notice) < len(notice):
                self._lost_bytes += len(data)
                return
            self._lost_bytes = 0
        self._lost_bytes = len(data) - self._write_available(data)
        self.has_more.set()

    def _write_available(self, data: bytes) -> int:
        """Write as much as the disk has room for; tells how much that was."""
        try:
            written = self._out.write(data)
        except OSError as error:
            # A run is worth more than its log: on a full disk it goes on without.
            if not self._lost_bytes:
                log.warning("the log has a gap", file=str(self._file), reason=str(error))
            return 0
        self._size += written
        return written

    def read(self, offset: int) -> bytes:
        """What follows after an offset, at most one chunk of it."""
        return read_log(self._file, offset)

    def close(self) -> None:
        """Write no more."""
        self._out.close()
        self.ended.set()
        self.has_more.set()


def read_log(file: Path, offset: int) -> bytes:
    """What follows in a log after an offset, at most one chunk; nothing of one that is gone."""
    try:
        with file.open("rb") as log_file:
            log_file.seek(offset)
            return log_file.read(CHUNK_BYTES_MAX)
    except FileNotFoundError:
        return b""


class LogSender:
    """Sends the log of one run under its lease, chunk by chunk."""

    def __init__(
        self, client: AsyncClient, job_id: str, epoch: int, read: Callable[[int], bytes]
    ) -> None:
        """Send what `read` gives after an offset, from where the other side says on."""
        self._client = client
        self._job_id = job_id
        self._epoch = epoch
        self._read = read
        self._offset = 0

    async def send_available(self) -> bool:
        """Send all that there is now, and is not there yet; tells whether more would be taken.

        Raises Unavailable and TooManyRequests when the rest has to wait.
        """
        try:
            while chunk := self._read(self._offset):
                await self._send(chunk)
        except (Unavailable, TooManyRequests):
            raise
        except Fenced:
            return False
        except Refused as refused:
            log.warning("log refused", job=self._job_id, reason=refused.detail)
            return False
        return True

    async def _send(self, chunk: bytes) -> None:
        call = workers.log_chunk(self._job_id, self._epoch, self._offset, chunk)
        try:
            self._offset = (await self._client.send(call)).offset
        except LogGap as gap:
            self._offset = gap.expected

    async def follow(self, source: RunLog) -> bool:
        """Send a log as it grows, to its end; tells whether nothing of it has to wait."""
        while True:
            ended = source.ended.is_set()
            source.has_more.clear()
            try:
                if not await self.send_available() or ended:
                    return True
            except (Unavailable, TooManyRequests):
                if ended:
                    return False
                source.has_more.set()
            await source.has_more.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await source.ended.wait()
