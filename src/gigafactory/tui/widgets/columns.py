"""Row lists side by side with one common selection."""

from collections.abc import Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from gigafactory.tui.widgets.rows import Row, RowList


class BoardColumns(Horizontal):
    """Columns of rows; one row of one column is selected."""

    def __init__(self, names: Sequence[str], id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._names = names
        self._active = names[0]

    def compose(self) -> ComposeResult:
        for name in self._names:
            yield RowList(id=f"column-{name}")

    def _column(self, name: str) -> RowList:
        return self.query_one(f"#column-{name}", RowList)

    @property
    def active(self) -> RowList:
        """Return the column that has the selection."""
        return self._column(self._active)

    @property
    def selected(self) -> Row | None:
        """Return the selected row; None if no row can be selected."""
        return self.active.selected

    def set_rows(self, rows: Mapping[str, list[Row]], *, reset: bool = False) -> None:
        """Show these rows; the selection follows its row to another column."""
        before = None if reset or self.selected is None else self.selected.key
        for name in self._names:
            column = self._column(name)
            column.display = name in rows
            column.set_rows(rows.get(name, []), reset=reset)
        if reset or self._active not in rows:
            self._active = next(iter(rows))
        if before is not None:
            self.select(before)
        self._mark_active()

    def select(self, key: str) -> None:
        """Select the row with this key in any column."""
        for name in self._names:
            column = self._column(name)
            if column.has_key(key):
                self._active = name
                if column.selected is None or column.selected.key != key:
                    column.select(key)
                self._mark_active()
                return

    def move_column(self, by: int) -> None:
        """Move to the next or previous visible column."""
        visible = [name for name in self._names if self._column(name).display]
        position = visible.index(self._active) + by
        self._active = visible[max(0, min(len(visible) - 1, position))]
        self._mark_active()
        self.active.post_message(RowList.SelectionChanged(self.active))

    @on(RowList.SelectionChanged)
    def _activate_clicked(self, message: RowList.SelectionChanged) -> None:
        name = (message.rows.id or "").removeprefix("column-")
        if name != self._active:
            self._active = name
            self._mark_active()

    def _mark_active(self) -> None:
        for name in self._names:
            self._column(name).set_active(active=name == self._active)
        # A hidden board must not take the focus.
        if self.display and self.screen.focused is not self.active:
            self.screen.set_focus(self.active)
