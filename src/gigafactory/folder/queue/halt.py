"""The switch of a folder: while it is halted, no runner begins with a job."""

from datetime import datetime

import msgspec

from gigafactory.folder.queue.actions import Wish, act
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.store import Queue
from gigafactory.system.atomic_file import write_atomically


class Halt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who halted a folder, and why."""

    by: str
    reason: str
    at: datetime

    @property
    def told(self) -> str:
        """It in a few words."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


def halt(queue: Queue, by: str, reason: str = "", *, stop: bool = False) -> Halt:
    """Let no runner begin with anything; with `stop`, have what runs saved and handed back.

    After this not one more begins: whoever begins has the folder for that moment. Raises Refused.
    """
    with queue.open() as desk:
        made = Halt(by=by, reason=reason, at=desk.now)
        write_atomically(queue.board.halted, msgspec.json.encode(made) + b"\n", fsync=True)
        running = [kept.job.id for kept in desk.kept.values() if kept.job.lease is not None]
    for job_id in running if stop else ():
        act(queue, job_id, "preempt", by, Wish(reason=reason or "the folder is halted"))
    return made


def lift(queue: Queue) -> None:
    """Let runners begin again; harmless where nothing is halted."""
    queue.board.halted.unlink(missing_ok=True)


def halted(board: Board) -> Halt | None:
    """The halt of a folder; None while it goes on."""
    try:
        return msgspec.json.decode(board.halted.read_bytes(), type=Halt)
    except FileNotFoundError:
        return None
