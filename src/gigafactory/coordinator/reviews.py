"""Reviews: what waits for whom."""

from collections.abc import Sequence

from gigafactory.coordinator.jobs import Jobs
from gigafactory.coordinator.ports import PAGE_MAX, JobQuery
from gigafactory.domain.access import ALLOWED, Caller
from gigafactory.domain.job import Job, Stage


class Reviews:
    """The verb by which a person finds what to look at."""

    def __init__(self, jobs: Jobs) -> None:
        """Look among these jobs."""
        self._jobs = jobs

    async def waiting(self, caller: Caller) -> Sequence[Job]:
        """The jobs whose review waits for this caller, the longest waiting first.

        Raises Forbidden.
        """
        caller.require("read")
        if caller.role not in ALLOWED["approve"]:
            return []
        query = JobQuery(stages=(Stage.REVIEW,), oldest_first=True, limit=PAGE_MAX)
        return [job for job in await self._jobs.find(caller, query) if _waits_for(job, caller)]


def _waits_for(job: Job, caller: Caller) -> bool:
    reviewers = job.terms.reviewers
    if caller.actor in job.approvals:
        return False
    person = caller.actor.removeprefix("user:")
    return not reviewers or (person in reviewers and caller.actor != job.submitted_by)
