"""Locks that hold between processes, and end with the process that holds them."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Self

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LOOK_EVERY_S = 0.02
_LOOK_EVERY_MAX_S = 0.5


class FileLock:
    """A lock that this process holds, until it is released or the process ends."""

    def __init__(self, descriptor: int) -> None:
        """Keep the open file that the lock hangs on."""
        self._descriptor: int | None = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> "FileLock | None":
        """Take the lock of this name now; None when somebody has it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(descriptor):
                os.close(descriptor)
                return None
            if _is_still(descriptor, path):
                return cls(descriptor)
            # Its last holder removed the file while we waited at it: that lock guards nothing.
            os.close(descriptor)

    def __enter__(self) -> Self:
        """Hold it for a while."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self.release()

    def release(self) -> None:
        """Give the lock back; harmless when that was done before."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


async def acquire(path: Path, *, within_s: float) -> FileLock:
    """The lock of this name, as soon as whoever has it gives it back.

    Raises TimeoutError.
    """
    wait_s = _LOOK_EVERY_S
    async with asyncio.timeout(within_s):
        while (lock := FileLock.try_acquire(path)) is None:
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LOOK_EVERY_MAX_S)
    return lock


def _locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
