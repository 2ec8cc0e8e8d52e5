"""Claims: which process works on a job, by a file that it locks while it lives."""

import os
from datetime import datetime

import msgspec

from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.process.process_table import start_time
from gigafactory.folder.queue.board import Board


class Claim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The owner of a job; pid and start time identify the process for ever."""

    pid: int
    started: str | None
    instance_id: str
    epoch: int
    at: datetime

    @property
    def alive(self) -> bool:
        """Return whether that very process still runs, as far as this machine can tell."""
        return self.started is not None and start_time(self.pid) == self.started


def own_claim(instance_id: str, epoch: int, *, now: datetime) -> Claim:
    """Return the claim of this process."""
    pid = os.getpid()
    return Claim(pid=pid, started=start_time(pid), instance_id=instance_id, epoch=epoch, at=now)


def read_claim(board: Board, key: str) -> Claim | None:
    """Return a claim; None if there is none that can be read."""
    try:
        return msgspec.json.decode(board.claim(key).read_bytes(), type=Claim)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class HeldClaim:
    """A claim that this process holds; it ends with the process."""

    def __init__(self, board: Board, key: str, lock: FileLock) -> None:
        self._file = board.claim(key)
        self._lock = lock

    @classmethod
    def take(cls, board: Board, key: str) -> "HeldClaim | None":
        """Claim a job now; return None while another process, or a run of ours, has it."""
        lock = FileLock.try_acquire(board.claim(key))
        return None if lock is None else cls(board, key, lock)

    def write(self, claim: Claim) -> None:
        """Write our identity into the locked file itself: a new file would not be locked."""
        self._file.write_bytes(msgspec.json.encode(claim))

    def release(self) -> None:
        """Release the job."""
        self._file.unlink(missing_ok=True)
        self._lock.release()
