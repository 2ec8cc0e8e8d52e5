"""Bounded buffers for the end of an engine's output."""

from collections import deque

LINE_CHARS_MAX = 1000
LINES_MAX = 20
SPEECH_CHARS_MAX = 20_000


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def add(self, line: str) -> None:
        """Add a line; drop the oldest if there are too many."""
        if line.strip():
            self._lines.append(line.rstrip()[:LINE_CHARS_MAX])

    def __str__(self) -> str:
        """Return the lines, oldest first."""
        return "\n".join(self._lines)


class MessageBuffer:
    """A message that an engine streams in pieces."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._text = (self._text + piece)[-SPEECH_CHARS_MAX:]

    def clear(self) -> None:
        """Start a new message."""
        self._text = ""

    def __str__(self) -> str:
        """Return the message."""
        return self._text
