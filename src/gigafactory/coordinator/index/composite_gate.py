"""Keeps children of ended or exhausted composites out of the ready queue."""

from msgspec.structs import replace

from gigafactory.domain.job.job import Job, Stage, Step
from gigafactory.domain.queue.ready_queue import ReadyQueue


class CompositeGate:
    """Puts jobs into the ready queue, and holds back those that their composite does not admit.

    A composite that ended without being shipped admits none of its children. One whose budget is
    spent admits no new runs. A held-back child is queued again when its composite recovers.
    """

    def __init__(self, queue: ReadyQueue) -> None:
        self._queue = queue
        self._ended: set[str] = set()
        self._exhausted: set[str] = set()
        self._held_back: dict[str, dict[str, Job]] = {}
        """By composite, then by job id."""

    def put(self, job: Job) -> None:
        """Apply this version of a job."""
        if job.composite:
            ended = job.finished and job.stage is not Stage.SHIPPED
            (self._ended.add if ended else self._ended.discard)(job.id)
            (self._exhausted.add if job.over_budget else self._exhausted.discard)(job.id)
            for child in self._held_back.pop(job.id, {}).values():
                self._queue_or_hold(child)
        self._queue_or_hold(job)

    def remove(self, job_id: str) -> None:
        """Forget a job that does not exist in the store."""
        self._queue.remove(job_id)
        for siblings in self._held_back.values():
            siblings.pop(job_id, None)

    def _queue_or_hold(self, job: Job) -> None:
        held = job.parent_id in self._ended and job.step is not None
        held = held or (job.parent_id in self._exhausted and job.step is Step.RUN)
        if job.parent_id is not None:
            siblings = self._held_back.setdefault(job.parent_id, {})
            siblings.pop(job.id, None)
            if held:
                siblings[job.id] = job
            if not siblings:
                del self._held_back[job.parent_id]
        self._queue.put(replace(job, stage=Stage.BLOCKED) if held else job)
