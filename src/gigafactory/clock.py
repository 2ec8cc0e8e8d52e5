"""The coordinator's own clock, for the embedded store."""

from datetime import UTC, datetime


class SystemClock:
    """The machine's time in UTC, to the millisecond; when that steps back, it waits."""

    def __init__(self) -> None:
        """Begin now."""
        self._last = datetime.min.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """See the port."""
        moment = datetime.now(UTC)
        self._last = max(self._last, moment.replace(microsecond=moment.microsecond // 1000 * 1000))
        return self._last
