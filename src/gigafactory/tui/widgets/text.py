"""Rendering of untrusted text in lines of fixed width."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gigafactory.domain.elapsed import DAY, HOUR, MINUTE
from gigafactory.system.terminal_escapes import keep_colours_only, strip_escapes

AMBER = "yellow"
"""Needs a person."""
RED = "red"
"""A problem."""
DIM = "dim"

FLEX_MIN = 8
TAB = 8

# Bidirectional and zero-width characters: they could make one name look like another.
_INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def one_line(text: str) -> str:
    """Return untrusted text as one line, without control and invisible characters."""
    return _INVISIBLE.sub("", strip_escapes(" ".join(text.split())))


def render_log_line(line: str) -> Text:
    """Return a log line in its colours; after carriage returns, only the last part."""
    last = line.rstrip("\r").rpartition("\r")[2]
    return Text.from_ansi(
        _INVISIBLE.sub("", keep_colours_only(last.expandtabs(TAB))), no_wrap=False
    )


def styled(text: str, style: str) -> Text:
    """Return text in a terminal colour; Textual would read the style of a whole Text as CSS."""
    return Text().append(text, style)


def truncate(text: str, width: int) -> str:
    """Return text cut to this width, with an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


class TextCell(NamedTuple):
    """A part of a line; without a width it takes the remaining space."""

    text: str
    width: int | None = None
    style: str = ""
    right: bool = False


def render_cells(width: int, cells: Sequence[TextCell], *, gap: int = 1) -> Text:
    """Return the cells as one line, each truncated to its width; cells of width 0 are left out."""
    visible = [cell for cell in cells if cell.width != 0]
    fixed = sum(cell.width or 0 for cell in visible) + gap * (len(visible) - 1)
    flexible = sum(cell.width is None for cell in visible)
    room = max(FLEX_MIN, (width - fixed) // flexible) if flexible else 0
    made = Text(no_wrap=True, end="")
    for number, cell in enumerate(visible):
        cell_width = room if cell.width is None else cell.width
        text = truncate(one_line(cell.text), cell_width)
        space = " " * (cell_width - cell_len(text))
        made.append(space + text if cell.right else text + space, cell.style)
        if number < len(visible) - 1:
            made.append(" " * gap)
    return made


def format_countdown(until: datetime, now: datetime) -> str:
    """Return the remaining time, to the second."""
    left = max(timedelta(), until - now)
    seconds = -(-int(left.total_seconds() * 1000) // 1000)
    hours, rest = divmod(seconds, HOUR)
    if hours >= DAY // HOUR:
        return f"{hours // 24}d {hours % 24}h"
    if hours:
        return f"{hours}:{rest // MINUTE:02}:{rest % MINUTE:02}"
    return f"{rest // MINUTE}:{rest % MINUTE:02}"


def format_clock_time(at: datetime) -> str:
    """Return a time of day in the local time zone."""
    return at.astimezone().strftime("%H:%M:%S")
