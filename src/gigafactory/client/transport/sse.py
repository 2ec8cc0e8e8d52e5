"""Parser of server-sent events that can resume after a broken connection."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import RETRY_DELAYS_S
from gigafactory.client.transport.problems import Unreachable

SILENCE_S = 45.0
"""The server sends something every 15 s; after this long without data the connection is dead."""


ENDS = frozenset({"dropped", "revoked"})
"""Final events of a connection; the client reconnects to learn why."""


class ServerEvent(msgspec.Struct, frozen=True):
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class SseParser:
    """Assembles events from the lines of one or more connections, without loss or repetition."""

    def __init__(
        self, after: str | None = None, retry_delays: Sequence[float] = RETRY_DELAYS_S
    ) -> None:
        """Start after the event with this id."""
        self.after = after
        self._retry_delays = tuple(retry_delays)
        self._failures = 0
        self._reset()

    def _reset(self) -> None:
        self._event = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers that resume after the last event."""
        self._reset()
        resumed = {"last-event-id": self.after} if self.after is not None else {}
        return {"accept": "text/event-stream", "cache-control": "no-store"} | resumed

    def feed(self, line: str) -> ServerEvent | None:
        """Take one line without its end; return the event that it completes, or None."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case _:
                pass
        return None

    def _complete(self) -> ServerEvent | None:
        self._failures = 0
        visible = bool(self._data) and self._event not in ENDS
        event = ServerEvent(self._event, "\n".join(self._data), self._id) if visible else None
        if self._id is not None:
            self.after = self._id
        self._reset()
        return event

    def pause(self, broke: str) -> float:
        """Return the delay before the next connection.

        Raises Unreachable with the message `broke` after too many failures in a row.
        """
        self._failures += 1
        if self._failures > len(self._retry_delays):
            raise Unreachable(broke)
        return self._retry_delays[self._failures - 1]
