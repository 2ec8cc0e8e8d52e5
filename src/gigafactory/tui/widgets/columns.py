"""Columns side by side, of which one is walked along; what is chosen is followed across them."""

from collections.abc import Mapping, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from gigafactory.tui.widgets.rows import Row, Rows


class Columns(Horizontal):
    """Rows beside rows; exactly one row of all is chosen."""

    def __init__(self, names: Sequence[str], id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._names = names
        self._at = names[0]

    def compose(self) -> ComposeResult:
        """A column for each name."""
        for name in self._names:
            yield Rows(id=f"column-{name}")

    def _column(self, name: str) -> Rows:
        return self.query_one(f"#column-{name}", Rows)

    @property
    def active(self) -> Rows:
        """The column that is walked along."""
        return self._column(self._at)

    @property
    def chosen(self) -> Row | None:
        """The row that is chosen; None when there is none to choose."""
        return self.active.chosen

    def show(self, made: Mapping[str, list[Row]], *, anew: bool = False) -> None:
        """Show these; a row that was chosen and has moved to another column is followed there."""
        before = None if anew or self.chosen is None else self.chosen.key
        for name in self._names:
            column = self._column(name)
            column.display = name in made
            column.show(made.get(name, []), anew=anew)
        there = list(made)
        if anew or self._at not in made:
            self._at = there[0]
        if before is not None:
            self.choose(before)
        self._light()

    def choose(self, key: str) -> None:
        """Choose the row with this key, in whichever column it is."""
        for name in self._names:
            column = self._column(name)
            if column.has(key):
                self._at = name
                if column.chosen is None or column.chosen.key != key:
                    column.choose(key)
                self._light()
                return

    def aside(self, by: int) -> None:
        """Go to the next column that is there, or the one before."""
        there = [name for name in self._names if self._column(name).display]
        place = there.index(self._at) + by
        self._at = there[max(0, min(len(there) - 1, place))]
        self._light()
        self.active.post_message(Rows.Moved(self.active))

    @on(Rows.Moved)
    def _clicked(self, message: Rows.Moved) -> None:
        """Whoever clicks into another column walks along there."""
        name = (message.rows.id or "").removeprefix("column-")
        if name != self._at:
            self._at = name
            self._light()

    def _light(self) -> None:
        for name in self._names:
            self._column(name).light(lit=name == self._at)
        # Keys go to the column only while the board is what is seen.
        if self.display and self.screen.focused is not self.active:
            self.screen.set_focus(self.active)
