"""Age, size and removal of folder trees, including read-only ones."""

import os
import shutil
import stat
from pathlib import Path


def last_modified(path: Path) -> float:
    """Return the newest modification time in a tree; ignore files that vanish meanwhile."""
    newest = _modified_at(path)
    for folder, _, files in os.walk(path):
        newest = max(
            newest, _modified_at(Path(folder)), *(_modified_at(Path(folder, f)) for f in files)
        )
    return newest


def tree_size(path: Path) -> int:
    """Return the number of bytes in a tree; links count as zero."""
    total = _size(path)
    for folder, _, files in os.walk(path):
        total += sum(_size(Path(folder, name)) for name in files)
    return total


def remove_tree(path: Path) -> None:
    """Remove a file or folder, also a read-only one; do not follow links.

    Raises OSError if something remains.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():
            raise
    except PermissionError:
        _open_folders(path)
        shutil.rmtree(path)


def _open_folders(path: Path) -> None:
    """Package caches make their folders read-only."""
    path.chmod(stat.S_IRWXU)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)


def _modified_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
