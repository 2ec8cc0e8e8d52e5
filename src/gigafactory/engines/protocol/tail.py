"""The end of what an engine has said, in bounded memory."""

from collections import deque

LINE_CHARS_MAX = 1000
LINES_MAX = 20
SPEECH_CHARS_MAX = 20_000


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def add(self, line: str) -> None:
        """Keep a line, and forget the oldest one if there are too many."""
        if line.strip():
            self._lines.append(line.rstrip()[:LINE_CHARS_MAX])

    def __str__(self) -> str:
        """The lines, the oldest first."""
        return "\n".join(self._lines)


class MessageBuffer:
    """What an engine says piece by piece, until it does something else."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, piece: str) -> None:
        """Go on with a piece."""
        self._text = (self._text + piece)[-SPEECH_CHARS_MAX:]

    def clear(self) -> None:
        """Begin anew."""
        self._text = ""

    def __str__(self) -> str:
        """The pieces as one text."""
        return self._text
