"""The metadata file beside a mirror: its URL, and by its modification time the last use."""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gigafactory.system.atomic_file import write_atomically


class MirrorMetadata(msgspec.Struct, frozen=True):
    """What a mirror itself does not record."""

    url: str


def record_use(folder: Path, url: str) -> None:
    """Record that the mirror in this folder is used now."""
    file = metadata_file(folder)
    if _read(file) == MirrorMetadata(url):
        with contextlib.suppress(FileNotFoundError):
            os.utime(file)
            return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, msgspec.json.encode(MirrorMetadata(url)))


def url_of(folder: Path) -> str | None:
    """Return the URL of a mirror's remote; None if it was not recorded."""
    note = _read(metadata_file(folder))
    return note.url if note is not None else None


def last_used(folder: Path) -> datetime:
    """Return when a mirror was last opened, or created.

    Raises FileNotFoundError if it is gone.
    """
    file = metadata_file(folder)
    changed = (file if file.exists() else folder).stat().st_mtime
    return datetime.fromtimestamp(changed, UTC)


def metadata_file(folder: Path) -> Path:
    """Return the metadata file of a mirror."""
    return folder.with_suffix(".json")


def _read(file: Path) -> MirrorMetadata | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=MirrorMetadata)
    except (OSError, msgspec.DecodeError):
        return None
