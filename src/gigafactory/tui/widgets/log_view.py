"""A log as it grows, in its own colours, and in as many columns as there are."""

from collections import deque

from textual.events import Resize
from textual.widgets import RichLog

from gigafactory.tui.widgets.text import log_line

LINES_MAX = 5_000


class LogLines(RichLog):
    """The last lines of a log; while its end is in sight, it is followed."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, max_lines=LINES_MAX, min_width=10, wrap=True)
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._rest = ""
        self._width = 0
        self._wanted = ""

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Take what was printed; a line is shown when it is whole."""
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._take(line)

    def end(self) -> None:
        """Nothing more is printed: what has no end of line is shown, too."""
        if self._rest:
            self._take(self._rest)
            self._rest = ""

    def find(self, words: str) -> int:
        """Show only lines with these words, or all; how many there are."""
        self._wanted = words.casefold()
        self._again()
        return sum(map(self._fits, self._lines))

    def _take(self, line: str) -> None:
        self._lines.append(line)
        if self._fits(line):
            self._print(line)

    def _print(self, line: str, *, scroll_end: bool | None = None) -> None:
        room = self.scrollable_content_region.width or None
        self.write(log_line(line), width=room, scroll_end=scroll_end)

    def _fits(self, line: str) -> bool:
        return self._wanted in line.casefold()

    def _again(self) -> None:
        at_end = self.auto_scroll
        self.clear()
        for line in filter(self._fits, self._lines):
            self._print(line, scroll_end=False)
        if at_end:
            self.scroll_end(animate=False)

    def on_resize(self, _event: Resize) -> None:
        """Break the lines anew."""
        if self._width not in (0, self.size.width):
            self._again()
        self._width = self.size.width
