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
    with queue.open() as locked:
        awaited = {d for k in locked.records.values() if not k.job.finished for d in k.job.deps}
        old = [
            record
            for record in locked.records.values()
            if _has_ended(record.job, failed=failed)
            and record.job.id not in awaited
            and locked.now - record.job.stage_since >= older
        ]
        for record in old:
            _remove(locked.board, record)
    return old


def _has_ended(job: Job, *, failed: bool) -> bool:
    ended = job.finished if failed else job.stage is Stage.SHIPPED
    return ended and not leases_of(job)


def _remove(board: Board, record: JobRecord) -> None:
    """Remove everything of a job, the record last: after a crash the rest is removed next time."""
    data_dir = board.data_dir
    runs = (data_dir.log_file(run.id) for run in record.runs)
    job_id = record.job.id
    for path in (
        *runs,
        data_dir.home(job_id),
        data_dir.session_file(job_id),
        data_dir.worktree(job_id),
        board.log(record.key),
        board.artifacts(record.key),
        board.diff(record.key),
        file_of(board, record),
        board.claim(record.key),
        board.events(record.key),
        board.ticket_cursor(record.key),
        board.record(record.key),
    ):
        if path is not None:
            remove_tree(path)
