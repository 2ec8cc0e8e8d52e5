"""How far long work is, for whoever waits for it at a terminal."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic

from gigafactory.cli.output.text import plain
from gigafactory.system.formatting import format_size

SOON_S = 0.5
"""What is done by then needs no words."""
EVERY_S = 0.1


def watched(pieces: Iterable[bytes], what: str, of: int) -> Iterator[bytes]:
    """Pass the pieces of so many bytes on, and say how far it is; the line goes when it is done."""
    if not sys.stderr.isatty():
        yield from pieces
        return
    done, told_at, said = 0, monotonic() + SOON_S - EVERY_S, False
    try:
        for piece in pieces:
            yield piece
            done += len(piece)
            if monotonic() - told_at >= EVERY_S:
                told_at, said = monotonic(), True
                share = f", {100 * done // of} %" if of else ""
                _line(f"{plain(what)}: {format_size(done)} of {format_size(of)}{share}")
    finally:
        if said:
            _line("")


def _line(text: str) -> None:
    sys.stderr.write(f"\r{text}\x1b[K")
    sys.stderr.flush()
