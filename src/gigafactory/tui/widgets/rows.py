"""Rows to walk along: what is chosen stays chosen when everything around it moves."""

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

CHOSEN = Style(reverse=True)

Subject = JobView | AttentionItemView | FactoryView | BudgetView
"""What a row can be about."""


class Row(NamedTuple):
    """One line; without a key it cannot be chosen."""

    text: Text
    key: str | None = None
    about: Subject | None = None


class Rows(ScrollView, can_focus=True):
    """Lines of which one is chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "end(-1)", show=False),
        Binding("end,G", "end(1)", show=False),
        Binding("enter", "open", show=False),
    ]

    class Moved(Message):
        """Another row is chosen."""

        def __init__(self, rows: "Rows") -> None:
            super().__init__()
            self.rows = rows

    class Opened(Message):
        """Somebody wants to see more of the chosen row."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._at: int | None = None
        self._lit = True

    def light(self, *, lit: bool) -> None:
        """Show which row is chosen, or keep it to oneself: of several columns one has it."""
        if lit is not self._lit:
            self._lit = lit
            self.refresh()

    def has(self, key: str) -> bool:
        """Whether a row with this key is there."""
        return any(row.key == key for row in self._rows)

    @property
    def chosen(self) -> Row | None:
        """The row that is chosen; None when there is none to choose."""
        return None if self._at is None else self._rows[self._at]

    @property
    def _choices(self) -> list[int]:
        return [number for number, row in enumerate(self._rows) if row.key is not None]

    def show(self, rows: list[Row], *, anew: bool = False) -> None:
        """Show these; what was chosen stays so if it is there, else what has taken its place."""
        before = None if anew or self.chosen is None else self.chosen.key
        at = 0 if anew or self._at is None else self._at
        self._rows = tuple(rows)
        choices = self._choices
        same = next((n for n in choices if self._rows[n].key == before), None)
        moved = same is None
        if same is None:
            same = min(choices, key=lambda number: (abs(number - at), number), default=None)
        shift = 0 if self._at is None or same is None or moved else same - self._at
        self._at = same
        self.virtual_size = Size(self.size.width, len(self._rows))
        if anew:
            self.scroll_to(y=0, animate=False, force=True)
        elif shift:
            # What is looked at stays where it is on the screen, as far as there are rows above it.
            self.scroll_to(y=self.scroll_offset.y + shift, animate=False, force=True)
        self._keep_in_sight()
        self.refresh()

    def choose(self, key: str) -> None:
        """Choose the row with this key, if it is there."""
        found = next((n for n in self._choices if self._rows[n].key == key), None)
        if found is not None:
            self._go(found)

    def _go(self, number: int) -> None:
        self._at = number
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Moved(self))

    def _keep_in_sight(self) -> None:
        height = self.size.height
        if self._at is None or height == 0:
            return
        top = self.scroll_offset.y
        # The heading above the first choice comes into sight with it.
        first = 0 if self._choices[:1] == [self._at] else self._at
        if first < top:
            self.scroll_to(y=first, animate=False, force=True)
        elif self._at >= top + height:
            self.scroll_to(y=self._at - height + 1, animate=False, force=True)

    def _step(self, by: int) -> None:
        choices = self._choices
        if self._at is not None:
            place = choices.index(self._at) + by
            self._go(choices[max(0, min(len(choices) - 1, place))])

    def action_move(self, by: int) -> None:
        """Go to the next row, or the one before."""
        self._step(by)

    def action_page(self, by: int) -> None:
        """Go a screen on, or back."""
        self._step(by * max(1, self.size.height - 1))

    def action_end(self, by: int) -> None:
        """Go to the last row, or the first."""
        self._step(by * len(self._rows))

    def action_open(self) -> None:
        """See more of the chosen row."""
        if self.chosen is not None:
            self.post_message(self.Opened())

    def on_click(self, event: Click) -> None:
        """Choose what was clicked; once more opens it."""
        number = event.y + self.scroll_offset.y
        if number in self._choices:
            if number == self._at and self._lit:
                self.action_open()
            else:
                self._go(number)

    def on_resize(self, _event: Resize) -> None:
        """Keep what is chosen in sight."""
        self.virtual_size = Size(self.size.width, len(self._rows))
        self._keep_in_sight()

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        number = y + self.scroll_offset.y
        width = self.size.width
        base = self.rich_style
        if number >= len(self._rows):
            return Strip.blank(width, base)
        text = self._rows[number].text
        strip = Strip(text.render(self.app.console)).adjust_cell_length(width).apply_style(base)
        return strip.apply_style(CHOSEN) if number == self._at and self._lit else strip
