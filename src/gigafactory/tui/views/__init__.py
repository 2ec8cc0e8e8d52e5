"""What each view shows: rows, made of a snapshot, the time and the room that there is."""

from datetime import datetime

import msgspec
from rich.text import Text

from gigafactory.tui.model.source import Hints, Snapshot
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import DIM, Cell, line, one_line, painted


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """All that a view is made of."""

    seen: Snapshot
    hints: Hints
    now: datetime
    width: int
    text: str = ""
    """Only what has these words is shown."""

    def has_words(self, *parts: str | None) -> bool:
        """Whether something with these texts is looked for."""
        whole = " ".join(part for part in parts if part).casefold()
        return all(word in whole for word in self.text.casefold().split())

    def line(self, *cells: Cell) -> Text:
        """A line of this width."""
        return line(self.width, cells)


def heading(scene: Scene, title: str, note: str = "", style: str = "bold") -> Row:
    """A line between others."""
    return Row(scene.line(Cell(f"{title}  {note}".rstrip(), None, style)))


def remark(text: str) -> Row:
    """A line that says something about the rows."""
    return Row(painted(f"  {one_line(text)}", DIM))


def nothing(scene: Scene, sentence: str) -> list[Row]:
    """What is shown where there is nothing, with what to do next."""
    if scene.text:
        sentence = f"Nothing has the words {scene.text!r}. Esc shows everything again."
    return [Row(Text()), remark(sentence)]
