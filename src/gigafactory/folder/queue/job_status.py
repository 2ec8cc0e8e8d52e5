"""What has become of the jobs of a folder: its own records know."""

from collections.abc import Collection, Mapping

import msgspec

from gigafactory.factory.gc.job_status import Fate, went_into_base
from gigafactory.folder.queue.store import Queue, leases_of


class FolderFates:
    """The jobs of a folder, as they are kept there."""

    def __init__(self, queue: Queue) -> None:
        """Look into this queue."""
        self._queue = queue

    async def of(self, job_ids: Collection[str]) -> Mapping[str, Fate]:
        kept = self._queue.look()
        jobs = [kept[job_id].job for job_id in job_ids if job_id in kept]
        return {job.id: Fate(stage=job.stage, since=job.stage_since, head=job.head) for job in jobs}

    async def is_merged(self, job_id: str) -> bool:
        kept = self._queue.look().get(job_id)
        if kept is None:
            return False
        manifest = msgspec.json.decode(kept.manifest, type=dict[str, object])
        return went_into_base(manifest.get("ship"))


def is_live(queue: Queue, job_id: str) -> bool:
    """Whether somebody works on a job of this folder, or has died over it and is not recovered."""
    kept = queue.look().get(job_id)
    if kept is None:
        return False
    # The claim lasts a little longer than the lease: the worktree goes last.
    return bool(leases_of(kept.job)) or queue.board.claim(kept.key).exists()
