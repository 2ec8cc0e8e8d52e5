"""Reading of growing files in chunks."""

from pathlib import Path

CHUNK_BYTES_MAX = 256 * 1024


def read_chunk(path: Path, offset: int) -> bytes:
    """Return at most one chunk of a file after an offset; nothing if the file does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES_MAX)
    except FileNotFoundError:
        return b""
