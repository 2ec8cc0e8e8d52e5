"""Cron: submits a copy of a schedule's template at each tick, never two at once."""

from datetime import datetime

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, Ids, JobQuery, Store
from gigafactory.domain.job.change import FeedEntry, StaleRevision
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.submission.schedule import tick


class Cron:
    """The duty that serves due schedules; it learns templates from the change feed."""

    def __init__(self, store: Store, committer: Committer, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._due: dict[str, datetime] = {}

    def notice(self, entry: FeedEntry) -> None:
        """Remember a template, or forget one that ended."""
        if entry.job is not None:
            self._learn(entry.job)

    def _learn(self, job: Job) -> None:
        if (
            job.stage is Stage.BLOCKED
            and job.terms.schedule is not None
            and job.not_before is not None
        ):
            self._due[job.id] = job.not_before
        else:
            self._due.pop(job.id, None)

    async def load(self) -> None:
        """Load the existing templates."""
        after = None
        while page := await self._store.find_jobs(
            JobQuery(stages=(Stage.BLOCKED,), oldest_first=True, after=after, limit=PAGE_MAX)
        ):
            for job in page:
                self._learn(job)
            after = page[-1].id

    async def step(self) -> None:
        """Serve every template that is due."""
        now = self._clock.now()
        for job_id in [job_id for job_id, due in self._due.items() if due <= now]:
            await self._tick(job_id)

    async def _tick(self, job_id: str) -> None:
        template = await self._store.job(job_id)
        now = self._clock.now()
        if template is None or template.stage is not Stage.BLOCKED:
            self._due.pop(job_id, None)
            return
        if template.not_before is None or template.not_before > now:
            # Another coordinator served this tick; the next one is not due yet.
            self._learn(template)
            return
        specs = await self._store.specs([job_id])
        previous = await self._store.job(template.copy_id) if template.copy_id else None
        deps = await self._store.jobs(template.deps)
        changes = tick(
            template,
            specs[job_id],
            previous,
            list(deps.values()),
            copy_id=self._ids.new(now),
            now=now,
        )
        verdict = await self._committer.commit("system:cron", "tick", *changes)
        if not isinstance(verdict, StaleRevision):
            self._learn(changes[0].after)
