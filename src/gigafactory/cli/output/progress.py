"""Progress of uploads and downloads on a terminal."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic

from gigafactory.cli.output.text import plain
from gigafactory.system.formatting import format_size

QUIET_S = 0.5
"""Show no progress before this time."""
EVERY_S = 0.1


def with_progress(pieces: Iterable[bytes], label: str, of: int) -> Iterator[bytes]:
    """Yield the pieces and show the progress on stderr; remove the line at the end."""
    if not sys.stderr.isatty():
        yield from pieces
        return
    done, shown_at, shown = 0, monotonic() + QUIET_S - EVERY_S, False
    try:
        for piece in pieces:
            yield piece
            done += len(piece)
            if monotonic() - shown_at >= EVERY_S:
                shown_at, shown = monotonic(), True
                share = f", {100 * done // of} %" if of else ""
                _line(f"{plain(label)}: {format_size(done)} of {format_size(of)}{share}")
    finally:
        if shown:
            _line("")


def _line(text: str) -> None:
    sys.stderr.write(f"\r{text}\x1b[K")
    sys.stderr.flush()
