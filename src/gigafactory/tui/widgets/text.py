"""Texts on the screen: what comes from elsewhere stays text, and everything has its room."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gigafactory.system.terminal_escapes import keep_colours_only, strip_escapes

AMBER = "yellow"
"""Somebody's turn."""
RED = "red"
"""A fault."""
DIM = "dim"

MINUTE, HOUR, DAY = 60, 3600, 86_400
FLEX_MIN = 8
TAB = 8

# They turn the direction of text or take no room: a name with them could look like another one.
_HIDDEN = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def one_line(text: str) -> str:
    """A text from elsewhere in one line, without what a terminal would obey or hide."""
    return _HIDDEN.sub("", strip_escapes(" ".join(text.split())))


def log_line(line: str) -> Text:
    """A line of a log in its colours; of what overwrote itself, only the last is left."""
    last = line.rstrip("\r").rpartition("\r")[2]
    return Text.from_ansi(_HIDDEN.sub("", keep_colours_only(last.expandtabs(TAB))), no_wrap=False)


def painted(text: str, style: str) -> Text:
    """A text in a colour of the terminal; the style of a whole Text would be read as one of CSS."""
    return Text().append(text, style)


def cut(text: str, width: int) -> str:
    """A text that has no more room than this."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


class Cell(NamedTuple):
    """One part of a line; without a width it takes the room that is left."""

    text: str
    width: int | None = None
    style: str = ""
    right: bool = False


def line(width: int, cells: Sequence[Cell], *, gap: int = 1) -> Text:
    """Parts beside each other, each cut to its room; who has none is left out."""
    shown = [cell for cell in cells if cell.width != 0]
    fixed = sum(cell.width or 0 for cell in shown) + gap * (len(shown) - 1)
    flexible = sum(cell.width is None for cell in shown)
    room = max(FLEX_MIN, (width - fixed) // flexible) if flexible else 0
    made = Text(no_wrap=True, end="")
    for number, cell in enumerate(shown):
        has = room if cell.width is None else cell.width
        text = cut(one_line(cell.text), has)
        space = " " * (has - cell_len(text))
        made.append(space + text if cell.right else text + space, cell.style)
        if number < len(shown) - 1:
            made.append(" " * gap)
    return made


def countdown(until: datetime, now: datetime) -> str:
    """How long still, to the second."""
    left = max(timedelta(), until - now)
    seconds = -(-int(left.total_seconds() * 1000) // 1000)
    hours, rest = divmod(seconds, HOUR)
    if hours >= DAY // HOUR:
        return f"{hours // 24}d {hours % 24}h"
    if hours:
        return f"{hours}:{rest // MINUTE:02}:{rest % MINUTE:02}"
    return f"{rest // MINUTE}:{rest % MINUTE:02}"


def clock(at: datetime) -> str:
    """A moment of the day, in the reader's own time zone."""
    return at.astimezone().strftime("%H:%M:%S")
