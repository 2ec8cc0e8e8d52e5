"""Recovers jobs whose runner has died; idempotent."""

import structlog

from gigafactory.domain.job.lease import expire, release_revoked
from gigafactory.domain.job.run import end_run
from gigafactory.factory.process.orphans import kill_orphans
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.crash_recovery import begin_recovery, quarantine_dead_run
from gigafactory.folder.queue.claim import HeldClaim
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.store import FolderQueue, LockedQueue, leases_of

ACTOR = "system:recovery"

log = structlog.get_logger()


async def recover(queue: FolderQueue) -> list[JobRecord]:
    """Requeue every job whose runner has died, and return them."""
    recovered = []
    for record in list(queue.look().values()):
        if not leases_of(record.job):
            continue
        held = HeldClaim.take(queue.board, record.key)
        if held is None:
            continue
        try:
            await _kill_leftover_processes(queue, record.job.id)
            with queue.open() as locked:
                recovered += _requeue_dead_run(locked, record.job.id)
        finally:
            held.release()
    return recovered


async def _kill_leftover_processes(queue: FolderQueue, job_id: str) -> None:
    """Kill the processes that the dead runner started, before the job continues."""
    data_dir = queue.board.data_dir
    for run in (run for run in run_registry.load_runs(data_dir) if run.job_id == job_id):
        if not begin_recovery(data_dir, run):
            continue
        killed = await kill_orphans(run.mark)
        for process in killed.killed:
            log.warning("killed a leftover process", run=run.run_id, pid=process.pid)
        if run.repo is None:
            # The next run quarantines work in a repo.
            await quarantine_dead_run(data_dir, run, None)


def _requeue_dead_run(locked: LockedQueue, job_id: str) -> list[JobRecord]:
    """Requeue the job, unless its runner ended normally meanwhile."""
    record = locked.records.get(job_id)
    if record is None or not leases_of(record.job):
        return []
    for lease in record.job.ending:
        change = release_revoked(record.job, lease.epoch, now=locked.now, actor=ACTOR, expired=True)
        record = locked.commit(change)
    if record.job.lease is not None:
        run = next((r for r in record.runs if r.epoch == record.job.lease_epoch), None)
        change = expire(record.job, now=locked.now, actor=ACTOR, restarted=True)
        result, reason = change.after.result, change.after.reason
        ended = end_run(run, result, reason, now=locked.now) if run and result else None
        record = locked.commit(change, ended)
        log.warning("recovered", job=record.job.name, stage=record.job.stage)
    return [record]
