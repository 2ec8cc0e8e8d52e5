"""The system clock."""

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NANOSECONDS = 1_000_000


class SystemClock:
    """The machine's time in UTC, to the millisecond; it stands still if that steps back."""

    def __init__(self) -> None:
        self._millis = 0
        self._last = EPOCH

    def now(self) -> datetime:
        """Return the time."""
        millis = time.time_ns() // NANOSECONDS
        # Calls within one millisecond share one datetime.
        if millis > self._millis:
            self._millis = millis
            self._last = EPOCH + timedelta(milliseconds=millis)
        return self._last
