"""Halts a folder: no runner starts a job meanwhile."""

from datetime import datetime

import msgspec

from gigafactory.folder.queue.actions import FolderActionInput, act
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.system.atomic_file import write_atomically


class FolderHalt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who halted a folder, and why."""

    by: str
    reason: str
    at: datetime

    @property
    def summary(self) -> str:
        """Return a short description."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


def halt(queue: FolderQueue, by: str, reason: str = "", *, stop: bool = False) -> FolderHalt:
    """Let no runner start a job; with `stop`, save running work and hand it back.

    No job starts after this returns: a runner locks the folder to start one. Raises Refused.
    """
    with queue.open() as locked:
        made = FolderHalt(by=by, reason=reason, at=locked.now)
        write_atomically(queue.board.halted, msgspec.json.encode(made) + b"\n", fsync=True)
        running = [
            record.job.id for record in locked.records.values() if record.job.lease is not None
        ]
    for job_id in running if stop else ():
        act(
            queue, job_id, "preempt", by, FolderActionInput(reason=reason or "the folder is halted")
        )
    return made


def lift(queue: FolderQueue) -> None:
    """Let runners start jobs again; no effect if nothing is halted."""
    queue.board.halted.unlink(missing_ok=True)


def halted(board: Board) -> FolderHalt | None:
    """Return the halt of a folder; None if it is not halted."""
    try:
        return msgspec.json.decode(board.halted.read_bytes(), type=FolderHalt)
    except FileNotFoundError:
        return None
