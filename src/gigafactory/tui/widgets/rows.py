"""A list of rows whose selection survives updates."""

from typing import ClassVar, NamedTuple

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.budgets import BudgetView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView

SELECTED = Style(reverse=True)

Subject = JobView | AttentionItemView | FactoryView | BudgetView
"""What a row shows."""


class Row(NamedTuple):
    """One line; without a key it cannot be selected."""

    text: Text
    key: str | None = None
    subject: Subject | None = None


class RowList(ScrollView, can_focus=True):
    """A scrollable list with one selected row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "jump(-1)", show=False),
        Binding("end,G", "jump(1)", show=False),
        Binding("enter", "open", show=False),
    ]

    class SelectionChanged(Message):
        """Another row was selected."""

        def __init__(self, rows: "RowList") -> None:
            super().__init__()
            self.rows = rows

    class OpenRequested(Message):
        """The selected row is to be opened."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._index: int | None = None
        self._active = True

    def set_active(self, *, active: bool) -> None:
        """Show or hide the selection: only one of several columns shows it."""
        if active is not self._active:
            self._active = active
            self.refresh()

    def has_key(self, key: str) -> bool:
        """Return whether there is a row with this key."""
        return any(row.key == key for row in self._rows)

    @property
    def selected(self) -> Row | None:
        """Return the selected row; None if no row can be selected."""
        return None if self._index is None else self._rows[self._index]

    @property
    def _selectable(self) -> list[int]:
        return [number for number, row in enumerate(self._rows) if row.key is not None]

    def set_rows(self, rows: list[Row], *, reset: bool = False) -> None:
        """Show these rows; keep the selected row, or select the nearest one."""
        before = None if reset or self.selected is None else self.selected.key
        at = 0 if reset or self._index is None else self._index
        self._rows = tuple(rows)
        selectable = self._selectable
        index = next((n for n in selectable if self._rows[n].key == before), None)
        lost = index is None
        if index is None:
            index = min(selectable, key=lambda number: (abs(number - at), number), default=None)
        shift = 0 if self._index is None or index is None or lost else index - self._index
        self._index = index
        self.virtual_size = Size(self.size.width, len(self._rows))
        if reset:
            self.scroll_to(y=0, animate=False, force=True)
        elif shift:
            # Keep the selected row at its place on the screen.
            self.scroll_to(y=self.scroll_offset.y + shift, animate=False, force=True)
        self._scroll_to_selected()
        self.refresh()

    def select(self, key: str) -> None:
        """Select the row with this key, if there is one."""
        index = next((n for n in self._selectable if self._rows[n].key == key), None)
        if index is not None:
            self._select_index(index)

    def _select_index(self, index: int) -> None:
        self._index = index
        self._scroll_to_selected()
        self.refresh()
        self.post_message(self.SelectionChanged(self))

    def _scroll_to_selected(self) -> None:
        height = self.size.height
        if self._index is None or height == 0:
            return
        top = self.scroll_offset.y
        # Scroll to the heading together with the first selectable row.
        first = 0 if self._selectable[:1] == [self._index] else self._index
        if first < top:
            self.scroll_to(y=first, animate=False, force=True)
        elif self._index >= top + height:
            self.scroll_to(y=self._index - height + 1, animate=False, force=True)

    def _step(self, by: int) -> None:
        selectable = self._selectable
        if self._index is not None:
            position = selectable.index(self._index) + by
            self._select_index(selectable[max(0, min(len(selectable) - 1, position))])

    def action_move(self, by: int) -> None:
        """Move the selection by one row."""
        self._step(by)

    def action_page(self, by: int) -> None:
        """Move the selection by a page."""
        self._step(by * max(1, self.size.height - 1))

    def action_jump(self, by: int) -> None:
        """Select the last or first row."""
        self._step(by * len(self._rows))

    def action_open(self) -> None:
        """Open the selected row."""
        if self.selected is not None:
            self.post_message(self.OpenRequested())

    def on_click(self, event: Click) -> None:
        """Select the clicked row; open it if it is selected already."""
        number = event.y + self.scroll_offset.y
        if number in self._selectable:
            if number == self._index and self._active:
                self.action_open()
            else:
                self._select_index(number)

    def on_resize(self, _event: Resize) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows))
        self._scroll_to_selected()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        number = y + self.scroll_offset.y
        width = self.size.width
        base = self.rich_style
        if number >= len(self._rows):
            return Strip.blank(width, base)
        text = self._rows[number].text
        strip = Strip(text.render(self.app.console)).adjust_cell_length(width).apply_style(base)
        return strip.apply_style(SELECTED) if number == self._index and self._active else strip
