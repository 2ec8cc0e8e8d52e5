"""A run's log on its way: a file on this machine first, and from there to the coordinator."""

import asyncio
import contextlib
from pathlib import Path

import structlog

from gigafactory.client import workers
from gigafactory.client.asynchronous import AsyncClient
from gigafactory.domain.errors import Fenced, LogGap, Refused, TooMany, Unavailable

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
        self.more = asyncio.Event()
        """Rung when there is something new to read."""
        self.ended = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Add to it; nothing of it may be a secret any more."""
        room = self._bytes_max - self._size
        if room <= 0 or not data:
            return
        if len(data) > room:
            note = f"\n[the log ends here: it has {self._bytes_max} bytes]\n".encode()
            data = data[:room] + note
        self._out.write(data)
        self._size += len(data)
        self.more.set()

    def read(self, offset: int) -> bytes:
        """What follows after an offset, at most one chunk of it."""
        with self._file.open("rb") as log_file:
            log_file.seek(offset)
            return log_file.read(CHUNK_BYTES_MAX)

    def close(self) -> None:
        """Write no more."""
        self._out.close()
        self.ended.set()
        self.more.set()


class LogSender:
    """Sends the log of one run, chunk by chunk, until the log is closed and all of it is there."""

    def __init__(self, client: AsyncClient, job_id: str, epoch: int, source: RunLog) -> None:
        """Send this log under a lease."""
        self._client = client
        self._job_id = job_id
        self._epoch = epoch
        self._source = source
        self._offset = 0
        self._pause_s = 0.0

    async def run(self) -> None:
        """Send as it grows; ends with the log, or with the lease."""
        while not await self._sent_all():
            await self._source.more.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._source.ended.wait()
                    # With the coordinator away, the end is tried again after a while too.
                    await asyncio.sleep(self._pause_s)

    async def _sent_all(self) -> bool:
        ended = self._source.ended.is_set()
        if not ended:
            self._source.more.clear()
        try:
            while chunk := self._source.read(self._offset):
                call = workers.log_chunk(self._job_id, self._epoch, self._offset, chunk)
                self._offset = (await self._client.send(call)).offset
        except LogGap as gap:
            self._offset = gap.expected
            return False
        except (Unavailable, TooMany):
            self._pause_s = EVERY_S
            return False
        except Fenced:
            return True
        except Refused as refused:
            log.warning("log refused", job=self._job_id, reason=refused.detail)
            return True
        return ended
