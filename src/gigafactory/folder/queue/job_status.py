"""The states of a folder's jobs, from its records."""

from collections.abc import Collection, Mapping

import msgspec

from gigafactory.factory.gc.job_status import JobState, ships_into_base
from gigafactory.folder.queue.store import FolderQueue, leases_of


class FolderJobStates:
    """The states of a folder's jobs, for garbage collection."""

    def __init__(self, queue: FolderQueue) -> None:
        self._queue = queue

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        records = self._queue.look()
        jobs = [records[job_id].job for job_id in job_ids if job_id in records]
        return {
            job.id: JobState(stage=job.stage, since=job.stage_since, head=job.head) for job in jobs
        }

    async def is_merged(self, job_id: str) -> bool:
        record = self._queue.look().get(job_id)
        if record is None:
            return False
        manifest = msgspec.json.decode(record.manifest, type=dict[str, object])
        return ships_into_base(manifest.get("ship"))


def is_live(queue: FolderQueue, job_id: str) -> bool:
    """Return whether a job has an active run, or one that died and is not recovered yet."""
    record = queue.look().get(job_id)
    if record is None:
        return False
    # The claim outlives the lease a little: the worktree is removed last.
    return bool(leases_of(record.job)) or queue.board.claim(record.key).exists()
