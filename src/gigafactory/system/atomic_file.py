"""Write files atomically: readers see the old content or the new one, never a part."""

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

DEFAULT_MODE = 0o666
"""As for any new file: the umask takes away from it."""


def write_atomically(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    mode: int = DEFAULT_MODE,
    fsync: bool = False,
    fsync_folder: bool = False,
) -> None:
    """Write `data` to a hidden temporary file beside `path`, then rename it to `path`.

    With `fsync` the content survives a power cut, with `fsync_folder` the rename does too. If
    writing fails, or `data` raises while it is read, the old file stays and the temporary one is
    removed. A symbolic link at `path` is replaced, not followed.
    """
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as out:
            out.writelines((data,) if isinstance(data, bytes) else data)
            if fsync:
                out.flush()
                os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if fsync_folder:
        sync_folder(path.parent)


def sync_folder(folder: Path, sync: Callable[[int], None] | None = None) -> None:
    """Make the names in a folder survive a power cut, where the system supports that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        (sync or os.fsync)(handle)
    finally:
        os.close(handle)
