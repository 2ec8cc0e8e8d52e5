"""Diffs of runs, for reviewers."""

import asyncio

from gigafactory.coordinator.files.artifacts import ArtifactService
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.artifact import Purpose
from gigafactory.domain.job.diff import WorkDiff, read_diff
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.tenancy.access import Caller

PARSE_INLINE_MAX = 1024 * 1024
"""Larger diffs are parsed in a thread."""


class Diffs:
    """Reads the diffs that runs uploaded."""

    def __init__(self, jobs: JobQueries, artifacts: ArtifactService) -> None:
        self._jobs = jobs
        self._artifacts = artifacts

    async def get(self, caller: Caller, reference: str) -> WorkDiff:
        """Return the diff of the newest run that uploaded one.

        Raises NotFound if there is none.
        """
        job = await self._jobs.lookup(caller, reference)
        diffs = [e for e in await self._artifacts.list_all(job) if e.purpose is Purpose.DIFF]
        if not diffs:
            raise NotFound("diff of the job", job.name, _why_none(job))
        data = b"".join([piece async for piece in self._artifacts.read(diffs[-1])])
        if len(data) <= PARSE_INLINE_MAX:
            return read_diff(data)
        return await asyncio.to_thread(read_diff, data)


def _why_none(job: Job) -> str:
    if job.ask.repo is None:
        return "the job has no repo; list its files with `aq artifacts`"
    if job.runs == 0 or job.stage in {Stage.ASSIGNED, Stage.BUILDING}:
        return f"the job is {job.stage}; a diff exists once a run has ended"
    return "no run of the job changed anything or uploaded a diff"
