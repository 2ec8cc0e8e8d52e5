"""What is written beside a mirror: where it is from, and by its age when it was last used."""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gigafactory.system.atomic_file import write_atomically


class MirrorNote(msgspec.Struct, frozen=True):
    """What cannot be told from a mirror itself."""

    url: str


def note_use(folder: Path, url: str) -> None:
    """Remember that the mirror in this folder is used now."""
    file = note_of(folder)
    if _read(file) == MirrorNote(url):
        with contextlib.suppress(FileNotFoundError):
            os.utime(file)
            return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, msgspec.json.encode(MirrorNote(url)))


def url_of(folder: Path) -> str | None:
    """Where a mirror is from; None when nobody has noted it."""
    note = _read(note_of(folder))
    return note.url if note is not None else None


def last_used(folder: Path) -> datetime:
    """When a mirror was last opened, or made.

    Raises FileNotFoundError when it is gone.
    """
    file = note_of(folder)
    changed = (file if file.exists() else folder).stat().st_mtime
    return datetime.fromtimestamp(changed, UTC)


def note_of(folder: Path) -> Path:
    """The file in which it is written."""
    return folder.with_suffix(".json")


def _read(file: Path) -> MirrorNote | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=MirrorNote)
    except (OSError, msgspec.DecodeError):
        return None
