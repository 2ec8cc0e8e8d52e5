"""Files to upload: hashed first, then streamed, never completely in memory."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

PIECE_BYTES = 1 << 18
ANY_BYTES = "application/octet-stream"


class HashedFile(msgspec.Struct, frozen=True):
    """A file with its size and hash at one time."""

    path: Path
    size: int
    sha256: str

    def pieces(self) -> Iterator[bytes]:
        left = self.size
        with self.path.open("rb") as source:
            while left > 0 and (piece := source.read(min(left, PIECE_BYTES))):
                left -= len(piece)
                yield piece


def hash_file(path: Path) -> HashedFile:
    """Read a file once and return its size and hash.

    Raises OSError.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return HashedFile(path, size, digest.hexdigest())


def media_type_of(name: str) -> str:
    """Return the media type of a file name, the same on every machine."""
    from mimetypes import MimeTypes

    media_types = MimeTypes()
    media_types.add_type("text/plain", ".log")
    media_types.add_type("text/markdown", ".md")
    kind, packed = media_types.guess_type(name)
    return f"application/{packed}" if packed else kind or ANY_BYTES
