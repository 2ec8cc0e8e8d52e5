"""Files on their way to the coordinator: known by their hash, and never in memory as a whole."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

PIECE_BYTES = 1 << 18
ANY_BYTES = "application/octet-stream"


class File(msgspec.Struct, frozen=True):
    """A file as it was when it was looked at."""

    path: Path
    size: int
    sha256: str

    def pieces(self) -> Iterator[bytes]:
        left = self.size
        with self.path.open("rb") as source:
            while left > 0 and (piece := source.read(min(left, PIECE_BYTES))):
                left -= len(piece)
                yield piece


def look_at(path: Path) -> File:
    """Read a file once, to know what it is.

    Raises OSError.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return File(path, size, digest.hexdigest())


def media_type_of(name: str) -> str:
    """What a file of this name is taken for, the same on every machine."""
    from mimetypes import MimeTypes

    known = MimeTypes()
    known.add_type("text/plain", ".log")
    known.add_type("text/markdown", ".md")
    kind, packed = known.guess_type(name)
    return f"application/{packed}" if packed else kind or ANY_BYTES
