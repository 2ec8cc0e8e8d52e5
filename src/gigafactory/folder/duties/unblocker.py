"""Unblocks jobs that wait for others, at each look at the folder."""

from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.submission.submission import reevaluate, resolve_names
from gigafactory.folder.queue.intake import find_job
from gigafactory.folder.queue.record import file_of
from gigafactory.folder.queue.store import LockedQueue

GONE = "its file was removed from the inbox"


def unblock_jobs(desk: LockedQueue) -> None:
    """Unblock or fail every blocked job as its dependencies allow."""
    # A job that changes may be what another one waits for.
    moved = True
    while moved:
        blocked = [k.job.id for k in desk.records.values() if k.job.stage is Stage.BLOCKED]
        moved = any(_look(desk, job_id) for job_id in blocked)


def _look(desk: LockedQueue, job_id: str) -> bool:
    job = desk.records[job_id].job
    names = [dep for dep in job.deps if dep not in desk.records]
    here = {name: find_job(desk, job.product_id, name) for name in names}
    ids = {name: dep.id for name, dep in here.items() if dep is not None}
    change = resolve_names(job, ids, [name for name in names if name not in ids], desk.now)
    if change is None:
        deps = [desk.records[dep].job for dep in job.deps if dep in desk.records]
        change = reevaluate(job, deps, now=desk.now)
    if change is None:
        return False
    desk.commit(change)
    return True


def move_files(desk: LockedQueue) -> None:
    """Move every file to its job's column; cancel a waiting job whose file is gone."""
    for record in list(desk.records.values()):
        if file_of(desk.board, record) is not None:
            desk.put(record)
        elif record.job.stage in {Stage.QUEUED, Stage.BLOCKED} and record.job.runs == 0:
            desk.commit(cancel(record.job, "folder", GONE, now=desk.now))
