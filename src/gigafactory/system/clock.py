"""The coordinator's own clock, for the embedded store."""

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOSECONDS = 1_000_000


class SystemClock:
    """The machine's time in UTC, to the millisecond; when that steps back, it waits."""

    def __init__(self) -> None:
        """Begin now."""
        self._millis = 0
        self._last = EPOCH

    def now(self) -> datetime:
        millis = time.time_ns() // NANOSECONDS
        # Asked many times in one millisecond: whoever asks shares what was made for the first.
        if millis > self._millis:
            self._millis = millis
            self._last = EPOCH + timedelta(milliseconds=millis)
        return self._last
