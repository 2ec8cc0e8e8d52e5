"""What a command says: results to stdout, everything else to stderr, no escapes of others."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
import msgspec

from gigafactory.domain.errors import Invalid, Refused
from gigafactory.escapes import bare

GAP = "  "
MINUTE, HOUR, DAY = 60, 3600, 86_400
KILO, TEN = 1000, 10

COLOURS = {
    "blocked": "yellow",
    "queued": "cyan",
    "assigned": "blue",
    "building": "blue",
    "review": "magenta",
    "testing": "magenta",
    "shipped": "green",
    "failed": "red",
    "dead_letter": "red",
    "cancelled": "bright_black",
}

# Beside control characters, those that turn the direction of text or take no room.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def say(text: str = "") -> None:
    """Print a result."""
    click.echo(text, color=None if "NO_COLOR" not in os.environ else False)


def note(text: str) -> None:
    """Say something about the work, which is no result."""
    click.echo(text, err=True, color=None if "NO_COLOR" not in os.environ else False)


def say_json(body: bytes) -> None:
    """Print an answer of the API as it is, laid out for reading."""
    say(msgspec.json.format(body, indent=2).decode())


def note_problem(refused: Refused) -> None:
    """Say a refusal to a program."""
    told: dict[str, object] = {"code": refused.code, "detail": refused.detail}
    if isinstance(refused, Invalid):
        told["faults"] = refused.faults
    note(msgspec.json.encode(told).decode())


def plain(text: object) -> str:
    """A text from elsewhere in one line, without escapes and control characters."""
    return bare(" ".join(str(text).split()))


def visible(line: str) -> str:
    """A line of which everything can be seen: what a terminal would obey or hide is spelled out."""
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", line)


def staged(stage: str) -> str:
    """A stage in its colour."""
    return click.style(stage, fg=COLOURS.get(stage))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in columns; on a terminal the last column is cut to what fits."""
    cells = [[plain(cell) if cell is not None else "" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    room = _width() - sum(width + len(GAP) for width in widths[:-1])
    for row in (list(heads), *cells):
        last = row[-1] if room >= len(row[-1]) else row[-1][: max(room - 1, 3)] + "…"
        padded = [_painted(cell, width) for cell, width in zip(row, widths[:-1], strict=False)]
        say(GAP.join([*padded, _painted(last, 0)]).rstrip())


def pairs(values: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other; what is not there is left out."""
    given = [(name, value) for name, value in values if value not in (None, "", (), [])]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        several = value if isinstance(value, list | tuple) else (value,)
        shown = ", ".join(plain(each) for each in several)
        say(f"{name:<{width}}{GAP}{_painted(shown, 0)}")


def age(since: datetime, now: datetime | None = None) -> str:
    """How long ago, in its largest unit."""
    seconds = max(0, int(((now or datetime.now(UTC)) - since).total_seconds()))
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def size(count: int) -> str:
    """So many bytes, in their largest unit."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < KILO:
            break
        value, unit = value / KILO, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= TEN else f"{value:.1f} {unit}"


def clock(at: datetime) -> str:
    """A moment to the second, in the reader's own time zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _painted(cell: str, width: int) -> str:
    padded = f"{cell:<{width}}"
    return click.style(padded, fg=COLOURS[cell]) if cell in COLOURS else padded


def _width() -> int:
    room = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    return room or sys.maxsize
