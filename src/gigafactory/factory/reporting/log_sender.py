"""Logs of runs: written to a local file, and sent to the coordinator from there."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Fenced, LogGap, Refused, TooManyRequests, Unavailable
from gigafactory.system.file_chunks import read_chunk

EVERY_S = 2.0

log = structlog.get_logger()


class RunLog:
    """The log of one run, bounded in size; it buffers until the coordinator accepts it."""

    def __init__(self, file: Path, bytes_max: int) -> None:
        """Append to `file`; output beyond `bytes_max` is dropped, and a last line says so."""
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = file
        self._out = file.open("ab", buffering=0)
        self._size = self._out.tell()
        self._bytes_max = bytes_max
        self._truncated = False
        self._lost_bytes = 0
        """Bytes lost on a full disk that the log does not mention yet."""
        self.has_more = asyncio.Event()
        """Set when there is new data."""
        self.ended = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether the log is complete or truncated."""
        return self._truncated or self._size >= self._bytes_max

    def write(self, data: bytes) -> None:
        """Append data, which must be redacted already."""
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
        """Write what fits on the disk; return the number of bytes written."""
        try:
            written = self._out.write(data)
        except OSError as error:
            # A full disk must not stop the run: continue without its log.
            if not self._lost_bytes:
                log.warning("the log has a gap", file=str(self._file), reason=str(error))
            return 0
        self._size += written
        return written

    def read(self, offset: int) -> bytes:
        """Return at most one chunk after an offset."""
        return read_chunk(self._file, offset)

    def close(self) -> None:
        """Close the log."""
        self._out.close()
        self.ended.set()
        self.has_more.set()


class LogSender:
    """Sends the log of one run in chunks, under its lease."""

    def __init__(
        self, client: AsyncClient, job_id: str, epoch: int, read: Callable[[int], bytes]
    ) -> None:
        """`read` returns the data after an offset; the coordinator corrects the offset."""
        self._client = client
        self._job_id = job_id
        self._epoch = epoch
        self._read = read
        self._offset = 0

    async def send_available(self) -> bool:
        """Send all data that is available; return whether the coordinator accepts more.

        Raises Unavailable and TooManyRequests if the rest has to wait.
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
        """Send a log while it grows, until it ends; return whether all of it was sent."""
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
