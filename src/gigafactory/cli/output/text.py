"""Print results to stdout and everything else to stderr, without foreign escape sequences.

The fast path imports this module, so it avoids slow imports.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

from gigafactory.system.terminal_escapes import CONTROL, keep_colours_only, strip_escapes

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import TextIO

GAP = "  "

RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, GREY = 31, 32, 33, 34, 35, 36, 90
COLOURS = {
    "blocked": YELLOW,
    "queued": CYAN,
    "assigned": BLUE,
    "building": BLUE,
    "review": MAGENTA,
    "testing": MAGENTA,
    "shipped": GREEN,
    "failed": RED,
    "dead_letter": RED,
    "cancelled": GREY,
}
"""ANSI colour of each stage."""

# Control characters, and those that change the text direction or have no width.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def say(text: str = "") -> None:
    """Print a result."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """Print a message that is not a result, without any colours: it may name files."""
    _write(sys.stderr, strip_escapes(text))


def say_json(body: bytes) -> None:
    """Print a JSON response, indented."""
    import json

    text = json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    # JSON may contain control characters that a terminal obeys.
    say(CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def plain(text: object) -> str:
    """Return untrusted text as one line without escapes and control characters."""
    return strip_escapes(" ".join(str(text).split()))


def visible(line: str) -> str:
    """Return a line with control and invisible characters spelled out."""
    return _HIDDEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", line)


def colour_stage(stage: str) -> str:
    """Return a stage in its colour."""
    return _colour(stage, 0)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in columns; truncate the last column to the width of a terminal."""
    cells = [[plain(cell) if cell is not None else "" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    room = _width() - sum(width + len(GAP) for width in widths[:-1])
    lines = []
    for row in (list(heads), *cells):
        last = row[-1] if room >= len(row[-1]) else row[-1][: max(room - 1, 3)] + "…"
        padded = [_colour(cell, width) for cell, width in zip(row, widths[:-1], strict=False)]
        lines.append(GAP.join([*padded, _colour(last, 0)]).rstrip())
    say("\n".join(lines))


def pairs(values: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other; omit empty ones."""
    given = [(name, value) for name, value in values if value not in (None, "", (), [])]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        several = value if isinstance(value, list | tuple) else (value,)
        joined = ", ".join(plain(each) for each in several)
        say(f"{name:<{width}}{GAP}{_colour(joined, 0)}")


def clock(at: datetime) -> str:
    """Format a time to the second in the local time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _colour(cell: str, width: int) -> str:
    padded = f"{cell:<{width}}"
    return f"\x1b[{COLOURS[cell]}m{padded}\x1b[0m" if cell in COLOURS else padded


def _write(stream: "TextIO | None", text: str) -> None:
    if stream is None:  # closed, as under pythonw
        return
    coloured = "NO_COLOR" not in os.environ and stream.isatty()
    # A last check for callers that forget it: names of files and jobs are untrusted.
    safe = keep_colours_only(text) if coloured else strip_escapes(text)
    # A file name may have bytes that are no characters.
    stream.write(f"{safe.encode(errors='replace').decode()}\n")
    stream.flush()


def _width() -> int:
    room = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    return room or sys.maxsize
