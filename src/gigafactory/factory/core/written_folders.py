"""Remembers the folders of people, outside of any repo, in which jobs worked in place (`cwd`).

A job can write everything there, so a repo that is found there later may be the work of a job: the
factory's git never touches it.
"""

import os
from pathlib import Path

import msgspec

NAME = "written-folders"


class WrittenFolders:
    """The list in the data folder, one folder a line, that only grows."""

    def __init__(self, data: Path) -> None:
        """Keep the list in a data folder."""
        self.file = data / NAME
        self._occupied: set[Path] = set()

    def occupy(self, folder: Path) -> bool:
        """Take a folder for a run of this process; return False if runs are in, above or below it.

        A run that may write a folder could put a link in the place of another run's folder.
        """
        for other in self._occupied:
            if folder.is_relative_to(other) or other.is_relative_to(folder):
                return False
        self._occupied.add(folder)
        return True

    def leave(self, folder: Path) -> None:
        """Free a folder; freeing it twice is harmless."""
        self._occupied.discard(folder)

    def add(self, folder: Path) -> None:
        """Remember a folder with its real path, before a job starts in it."""
        if folder in self._read():
            return
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.file.open("ab") as file:
            file.write(msgspec.json.encode(str(folder)) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def covering(self, path: Path) -> Path | None:
        """Return the remembered folder that a real path is in; None if there is none."""
        return next((each for each in self._read() if path.is_relative_to(each)), None)

    def _read(self) -> list[Path]:
        try:
            lines = self.file.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [Path(msgspec.json.decode(line, type=str)) for line in lines if line]
