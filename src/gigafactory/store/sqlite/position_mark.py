"""A note beside the database of how far it had come, to notice a damaged log.

SQLite replays its log up to the first damaged frame and drops the rest without a word.
"""

import os
from pathlib import Path
from time import monotonic

import structlog

from gigafactory.store.sqlite.connection import cannot_open

MARK_EVERY_S = 1.0
"""How often the mark is written: a loss of what came after the last one may go unnoticed."""
_FORMAT = b"%020d\n"

log = structlog.get_logger()


class PositionMark:
    """The position of the feed that was last known to be stored, in a small file."""

    def __init__(self, path: Path) -> None:
        """Open the mark of the database at `path`.

        Raises Unavailable.
        """
        # All names of symbolic links have one mark.
        path = path.resolve()
        place = path.with_name(path.name + ".mark")
        try:
            self._file = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as fault:
            raise cannot_open(place, fault) from fault
        text = os.read(self._file, len(_FORMAT % 0)).strip()
        self._position = int(text) if text.isdigit() else 0
        self._written_at = 0.0

    def is_ahead_of(self, position: int, path: Path) -> bool:
        """Return whether the database at `path` lost what it had stored, and say so."""
        if self._position <= position:
            return False
        log.error(
            "the database has lost stored history: its log was damaged, or an older copy was put"
            " in its place; check the disk, and restore a backup if that is newer",
            store=str(path),
            known_position=self._position,
            position=position,
        )
        return True

    def write(self, position: int) -> None:
        """Write a position that is stored, at most once in a while."""
        if (now := monotonic()) - self._written_at >= MARK_EVERY_S:
            self._written_at = now
            self._write(position)

    def close(self, position: int) -> None:
        """Write the last position."""
        self._write(position)
        os.close(self._file)

    def _write(self, position: int) -> None:
        if position == self._position:
            return
        self._position = position
        try:
            # Not synced: after a power cut, an older mark notices less and alarms nobody.
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, _FORMAT % position)
        except OSError as fault:
            log.warning("the position of the store was not noted", reason=str(fault))
