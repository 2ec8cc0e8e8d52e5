"""Views: functions from a snapshot, the time and a width to rows."""

from datetime import datetime

import msgspec
from rich.text import Text

from gigafactory.tui.model.source import DashboardSnapshot, EmptyViewHints
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import DIM, TextCell, one_line, render_cells, styled


class ViewContext(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a view."""

    snapshot: DashboardSnapshot
    hints: EmptyViewHints
    now: datetime
    width: int
    filter_text: str = ""
    """Only entries that match this text are shown."""

    def matches(self, *parts: str | None) -> bool:
        """Return whether an entry with these texts matches the filter."""
        whole = " ".join(part for part in parts if part).casefold()
        return all(word in whole for word in self.filter_text.casefold().split())

    def row_text(self, *cells: TextCell) -> Text:
        """Return the cells as a line of the view's width."""
        return render_cells(self.width, cells)


def heading_row(context: ViewContext, title: str, note: str = "", style: str = "bold") -> Row:
    """Return a heading."""
    return Row(context.row_text(TextCell(f"{title}  {note}".rstrip(), None, style)))


def note_row(text: str) -> Row:
    """Return a note that cannot be selected."""
    return Row(styled(f"  {one_line(text)}", DIM))


def empty_rows(context: ViewContext, sentence: str) -> list[Row]:
    """Return the rows of an empty view: a hint, or that nothing matches the filter."""
    if context.filter_text:
        sentence = f"Nothing matches {context.filter_text!r}. Esc clears the filter."
    return [Row(Text()), note_row(sentence)]
