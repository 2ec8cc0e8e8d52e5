"""Claims: which process works on a job, told by a file that it holds for as long as it lives."""

import os
from datetime import datetime

import msgspec

from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.process.process_table import started
from gigafactory.folder.queue.board import Board


class Claim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who has a job; the process is named for ever by its number and its beginning."""

    pid: int
    started: str | None
    instance_id: str
    epoch: int
    at: datetime

    @property
    def alive(self) -> bool:
        """Whether that very process still runs, as far as this machine can tell."""
        return self.started is not None and started(self.pid) == self.started


def of_this_process(instance_id: str, epoch: int, *, now: datetime) -> Claim:
    """The claim of ourselves."""
    pid = os.getpid()
    return Claim(pid=pid, started=started(pid), instance_id=instance_id, epoch=epoch, at=now)


def read_claim(board: Board, key: str) -> Claim | None:
    """What is written in a claim; None when there is none that can be read."""
    try:
        return msgspec.json.decode(board.claim(key).read_bytes(), type=Claim)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


class Held:
    """A claim that this process holds: it ends with the process, whatever becomes of that."""

    def __init__(self, board: Board, key: str, lock: FileLock) -> None:
        """Hold the claim on a job."""
        self._file = board.claim(key)
        self._lock = lock

    @classmethod
    def take(cls, board: Board, key: str) -> "Held | None":
        """Take the claim on a job now; None while another process, or a run of ours, has it."""
        lock = FileLock.try_acquire(board.claim(key))
        return None if lock is None else cls(board, key, lock)

    def write(self, claim: Claim) -> None:
        """Say who we are, in the file itself: another one would not be held."""
        self._file.write_bytes(msgspec.json.encode(claim))

    def release(self) -> None:
        """Let the job go."""
        self._file.unlink(missing_ok=True)
        self._lock.release()
