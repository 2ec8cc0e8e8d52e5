"""Unblocks jobs that wait for others, at each look at the folder."""

from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.submission.submission import reevaluate, resolve_names
from gigafactory.folder.queue.intake import find_job
from gigafactory.folder.queue.record import file_of
from gigafactory.folder.queue.store import LockedQueue

GONE = "its file was removed from the inbox"


def unblock_jobs(locked: LockedQueue) -> None:
    """Unblock or fail every blocked job as its dependencies allow."""
    # A job that changes may be what another one waits for.
    moved = True
    while moved:
        blocked = [k.job.id for k in locked.records.values() if k.job.stage is Stage.BLOCKED]
        moved = any(_reevaluate(locked, job_id) for job_id in blocked)


def _reevaluate(locked: LockedQueue, job_id: str) -> bool:
    job = locked.records[job_id].job
    names = [dep for dep in job.deps if dep not in locked.records]
    found_jobs = {name: find_job(locked, job.product_id, name) for name in names}
    ids = {name: dep.id for name, dep in found_jobs.items() if dep is not None}
    change = resolve_names(job, ids, [name for name in names if name not in ids], locked.now)
    if change is None:
        deps = [locked.records[dep].job for dep in job.deps if dep in locked.records]
        change = reevaluate(job, deps, now=locked.now)
    if change is None:
        return False
    locked.commit(change)
    return True


def move_files(locked: LockedQueue) -> None:
    """Move every file to its job's column; cancel a waiting job whose file is gone."""
    for record in list(locked.records.values()):
        if file_of(locked.board, record) is not None:
            locked.put(record)
        elif record.job.stage in {Stage.QUEUED, Stage.BLOCKED} and record.job.runs == 0:
            locked.commit(cancel(record.job, "folder", GONE, now=locked.now))
