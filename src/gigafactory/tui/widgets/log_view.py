"""A live log in its own colours, wrapped to the width of the terminal."""

from collections import deque

from textual.events import Resize
from textual.widgets import RichLog

from gigafactory.tui.widgets.text import render_log_line

LINES_MAX = 5_000


class LogView(RichLog):
    """The last lines of a log; follows the end while it is visible."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, max_lines=LINES_MAX, min_width=10, wrap=True)
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._partial_line = ""
        self._width = 0
        self._filter_text = ""

    @property
    def count(self) -> int:
        """Return the number of lines, without the filter."""
        return len(self._lines)

    def feed(self, text: str) -> None:
        """Append output; a line is shown when it is complete."""
        *whole, self._partial_line = (self._partial_line + text).split("\n")
        for line in whole:
            self._add_line(line)

    def finish(self) -> None:
        """Show the last line even if it has no newline."""
        if self._partial_line:
            self._add_line(self._partial_line)
            self._partial_line = ""

    def set_filter(self, text: str) -> int:
        """Show only the lines that contain a text; return their number."""
        self._filter_text = text.casefold()
        self._rewrite()
        return sum(map(self._matches, self._lines))

    def _add_line(self, line: str) -> None:
        self._lines.append(line)
        if self._matches(line):
            self._write_line(line)

    def _write_line(self, line: str, *, scroll_end: bool | None = None) -> None:
        room = self.scrollable_content_region.width or None
        self.write(render_log_line(line), width=room, scroll_end=scroll_end)

    def _matches(self, line: str) -> bool:
        return self._filter_text in line.casefold()

    def _rewrite(self) -> None:
        at_end = self.auto_scroll
        self.clear()
        for line in filter(self._matches, self._lines):
            self._write_line(line, scroll_end=False)
        if at_end:
            self.scroll_end(animate=False)

    def on_resize(self, _event: Resize) -> None:
        if self._width not in (0, self.size.width):
            self._rewrite()
        self._width = self.size.width
