"""Locks between processes; a lock ends with the process that holds it."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_LOOK_EVERY_S = 0.02
_LOOK_EVERY_MAX_S = 0.5


class FileLock:
    """A lock held by this process until it is released or the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> "FileLock | None":
        """Acquire the lock on `path` without waiting; return None if it is taken."""
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
            if not _try_lock(descriptor):
                os.close(descriptor)
                return None
            if _is_same_file(descriptor, path):
                return cls(descriptor)
            # The last holder removed the file after we opened it: a lock on it protects nothing.
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock; releasing it twice is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


async def acquire(path: Path, *, within_s: float) -> FileLock:
    """Wait for the lock on `path` and return it.

    Raises TimeoutError after `within_s`.
    """
    wait_s = _LOOK_EVERY_S
    async with asyncio.timeout(within_s):
        while (lock := FileLock.try_acquire(path)) is None:
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LOOK_EVERY_MAX_S)
    return lock


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
