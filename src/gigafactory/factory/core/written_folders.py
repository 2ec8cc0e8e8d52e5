"""Remembers the folders of people in which jobs worked in place (`cwd`).

A job can write there, so a repo that is found there later may be the work of a job: the factory's
git never touches it.
"""

import os
from pathlib import Path

import msgspec

NAME = "written-folders"


class WrittenFolder(msgspec.Struct, frozen=True):
    """A real path; the git folder of a checkout itself is not written by jobs."""

    folder: str
    checkout: bool = False

    def covers(self, path: Path) -> bool:
        """Return whether a job could have made a repo at this path."""
        folder = Path(self.folder)
        return folder in path.parents or (folder == path and not self.checkout)


class WrittenFolders:
    """The list in the data folder, one folder a line, that only grows."""

    def __init__(self, data: Path) -> None:
        """Keep the list in a data folder."""
        self.file = data / NAME

    def add(self, folder: Path, *, checkout: bool) -> None:
        """Remember a folder with its real path, before a job starts in it."""
        entry = WrittenFolder(str(folder), checkout)
        if entry in self._read():
            return
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.file.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def covering(self, path: Path) -> WrittenFolder | None:
        """Return an entry that covers a real path; None if there is none."""
        return next((each for each in self._read() if each.covers(path)), None)

    def _read(self) -> list[WrittenFolder]:
        try:
            lines = self.file.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=WrittenFolder) for line in lines if line]
