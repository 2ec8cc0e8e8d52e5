"""What would become of a job if it were submitted now; nothing is stored."""

from collections.abc import Sequence

import msgspec

from gigafactory.coordinator.index import Index
from gigafactory.coordinator.jobs import Jobs
from gigafactory.coordinator.ports import Clock
from gigafactory.coordinator.submissions import Submissions
from gigafactory.domain.access import Caller
from gigafactory.domain.decision import Pick
from gigafactory.domain.explain import Explanation
from gigafactory.domain.job import Job
from gigafactory.domain.manifest import JobFile
from gigafactory.domain.ready import ReadyQueue
from gigafactory.domain.scheduler import pick_offer


class Preview(msgspec.Struct, frozen=True):
    """A job as it would be, where it would go, or why it would have to wait."""

    job: Job
    known: bool
    """Whether it was submitted before: then that one is meant, and nothing would be new."""
    pick: Pick | None
    why: Explanation


class Previews:
    """The verb by which somebody looks before they submit."""

    def __init__(self, clock: Clock, index: Index, jobs: Jobs, submissions: Submissions) -> None:
        """Judge by what this index knows."""
        self._clock = clock
        self._index = index
        self._jobs = jobs
        self._submissions = submissions

    async def of(self, caller: Caller, files: Sequence[JobFile]) -> Sequence[Preview]:
        """What would become of each, by the fleet as it is at this moment.

        Raises all that `submit` raises.
        """
        drafted = await self._submissions.drafted(caller, files)
        await self._index.follow()
        return [await self._one(job, known=not drafted.created) for job in drafted.jobs]

    async def _one(self, job: Job, *, known: bool) -> Preview:
        now = self._clock.now()
        # As if it came first: who waits before it is told by the explanation.
        queue = ReadyQueue()
        queue.put(job)
        pick = pick_offer(queue, self._index.fleet, now=now)
        return Preview(job, known, pick, await self._jobs.explain(job))
