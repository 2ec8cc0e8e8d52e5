"""Removes jobs that ended long ago: file, record, log and home."""

from datetime import timedelta

from gigafactory.domain.job.job import Job, Stage
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.record import JobRecord, file_of
from gigafactory.folder.queue.store import FolderQueue, leases_of


def remove_ended(queue: FolderQueue, older: timedelta, *, failed: bool = False) -> list[JobRecord]:
    """Remove jobs that were shipped at least `older` ago (`failed`: other ended jobs, too).

    Jobs that an unfinished job waits for stay.
    """
    with queue.open() as desk:
        awaited = {d for k in desk.kept.values() if not k.job.finished for d in k.job.deps}
        old = [
            kept
            for kept in desk.kept.values()
            if _has_ended(kept.job, failed=failed)
            and kept.job.id not in awaited
            and desk.now - kept.job.stage_since >= older
        ]
        for kept in old:
            _remove(desk.board, kept)
    return old


def _has_ended(job: Job, *, failed: bool) -> bool:
    ended = job.finished if failed else job.stage is Stage.SHIPPED
    return ended and not leases_of(job)


def _remove(board: Board, kept: JobRecord) -> None:
    """Remove everything of a job, the record last: after a crash the rest is removed next time."""
    data_dir = board.data_dir
    runs = (data_dir.log_file(run.id) for run in kept.runs)
    job_id = kept.job.id
    for path in (
        *runs,
        data_dir.home(job_id),
        data_dir.worktree(job_id),
        board.log(kept.key),
        board.artifacts(kept.key),
        board.diff(kept.key),
        file_of(board, kept),
        board.claim(kept.key),
        board.events(kept.key),
        board.trail(kept.key),
        board.record(kept.key),
    ):
        if path is not None:
            remove_tree(path)
