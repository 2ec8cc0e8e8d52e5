"""Server-sent events, read line by line, with the place to go on from after a break."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import RETRY_DELAYS_S
from gigafactory.client.transport.problems import Unreachable

SILENCE_S = 45.0
"""The server says something every 15 s; after so long without a word the connection is dead."""


ENDS = frozenset({"dropped", "revoked"})
"""The server's last words on a connection: asking again shows what to make of them."""


class ServerEvent(msgspec.Struct, frozen=True):
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class SseParser:
    """Puts the lines of one or more connections together to events, none lost and none twice."""

    def __init__(
        self, after: str | None = None, patience: Sequence[float] = RETRY_DELAYS_S
    ) -> None:
        """Begin after the event with this id."""
        self.after = after
        self._patience = tuple(patience)
        self._failures = 0
        self._begin()

    def _begin(self) -> None:
        self._event = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def headers(self) -> dict[str, str]:
        """What a connection must ask for to go on where the last one broke off."""
        self._begin()
        resumed = {"last-event-id": self.after} if self.after is not None else {}
        return {"accept": "text/event-stream", "cache-control": "no-store"} | resumed

    def feed(self, line: str) -> ServerEvent | None:
        """Take one line without its end; the event, when this line completes one."""
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
        told = bool(self._data) and self._event not in ENDS
        sent = ServerEvent(self._event, "\n".join(self._data), self._id) if told else None
        if self._id is not None:
            self.after = self._id
        self._begin()
        return sent

    def pause(self, broke: str) -> float:
        """How long to wait before the next connection.

        Raises Unreachable, saying how it broke, after too many failures in a row.
        """
        self._failures += 1
        if self._failures > len(self._patience):
            raise Unreachable(broke)
        return self._patience[self._failures - 1]
