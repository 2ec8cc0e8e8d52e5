"""Log lines that strangers can cause: one every few seconds, with a count."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

EVERY_S = 10.0

log = structlog.get_logger()


class LogThrottle:
    """Logs each message at most once in `every_s`, and how often it was meant."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._times: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    def warn(self, message: str, **details: object) -> None:
        """Log a warning, or count it for the next line; messages are constants."""
        self._write(log.warning, message, details)

    def info(self, message: str, **details: object) -> None:
        """Log something of no importance in the same way."""
        self._write(log.info, message, details)

    def _write(
        self, write: Callable[..., object], message: str, details: Mapping[str, object]
    ) -> None:
        self._times[message] += 1
        now = time.monotonic()
        if now - self._logged_at.get(message, -self._every_s) < self._every_s:
            return
        self._logged_at[message] = now
        write(message, times=self._times.pop(message), **details)
