"""Preview a submission: where each job would go now; nothing is stored."""

from collections.abc import Sequence

import msgspec

from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.coordinator.jobs.submissions import Submissions
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.explain import Explanation
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.tenancy.access import Caller


class Preview(msgspec.Struct, frozen=True):
    """A job as it would be created, and where it would run or why it would wait."""

    job: Job
    existing: bool
    """Whether it was submitted before: nothing would be created."""
    pick: Pick | None
    why: Explanation


class Previewer:
    """Previews submissions."""

    def __init__(
        self, clock: Clock, index: Index, jobs: JobQueries, submissions: Submissions
    ) -> None:
        self._clock = clock
        self._index = index
        self._jobs = jobs
        self._submissions = submissions

    async def preview(self, caller: Caller, files: Sequence[JobFile]) -> Sequence[Preview]:
        """Preview every job file against the current fleet.

        Raises what `submit` raises.
        """
        drafted = await self._submissions.dry_run(caller, files)
        await self._index.catch_up()
        return [await self._preview_job(job, known=not drafted.created) for job in drafted.jobs]

    async def _preview_job(self, job: Job, *, known: bool) -> Preview:
        now = self._clock.now()
        # A queue of its own: jobs that wait before it appear in the explanation.
        queue = ReadyQueue()
        queue.put(job)
        pick = pick_offer(queue, self._index.fleet, now=now)
        return Preview(job, known, pick, await self._jobs.explain(job))
