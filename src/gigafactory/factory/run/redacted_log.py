"""Redacts the output of a run in batches before it is written to the log."""

import asyncio

from gigafactory.factory.reporting.log_sender import RunLog
from gigafactory.factory.secrets.redaction import Redactor

BUFFER_BYTES_MAX = 64 * 1024


class RedactedLog:
    """Buffers output, because redaction costs as much for one line as for a batch."""

    def __init__(self, log: RunLog, redactor: Redactor) -> None:
        self._log = log
        self._redactor = redactor
        self._buffer = bytearray()
        self._scheduled: asyncio.Handle | None = None

    def add(self, data: bytes) -> None:
        """Buffer output; it is written in the next turn of the event loop."""
        if self._log.full:
            return
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES_MAX:
            self._write()
        elif self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._write)

    def close(self) -> None:
        """Write the rest, and close the log."""
        self._write()
        self._log.write(self._redactor.finish())
        self._log.close()

    def _write(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if self._buffer:
            data, self._buffer = bytes(self._buffer), bytearray()
            self._log.write(self._redactor.feed(data))
