"""The archiver: archives or deletes jobs that finished long ago."""

from datetime import timedelta

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, JobQuery, Store, all_records
from gigafactory.coordinator.files.archive_file import ArchiveFile, JobRecords
from gigafactory.coordinator.files.orphan_blobs import OrphanBlobs
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.errors import Conflict
from gigafactory.domain.job import event_types
from gigafactory.domain.job.artifact import Artifact
from gigafactory.domain.job.change import RecordChange, Write
from gigafactory.domain.job.job import FINAL, Event, Job, Stage
from gigafactory.domain.job.run import Run
from gigafactory.domain.submission.retention import archive_job, archive_key, delete_job, is_due

ACTOR = "system:archiver"
JOBS_PER_STEP = 100
FINISHED = tuple(sorted(FINAL))
UNFINISHED = tuple(sorted(set(Stage) - FINAL))


class Archiver:
    """The duty that archives or deletes old jobs, oldest first, a page per step.

    The archive file is written first, reserved as an orphan blob; then one commit removes the
    reservation and all records of the job, and marks the job's blobs as orphans. After a crash in
    between, only the file is lost.
    """

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        orphans: OrphanBlobs,
        file: ArchiveFile,
        *,
        kept_for: timedelta,
        archived: bool,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._orphans = orphans
        self._file = file
        self._kept_for = kept_for
        self._archived = archived
        self._after: str | None = None

    async def step(self) -> None:
        """Archive or delete the due jobs of the next page."""
        page = await self._store.find_jobs(
            JobQuery(stages=FINISHED, oldest_first=True, after=self._after, limit=JOBS_PER_STEP)
        )
        horizon = self._clock.now() - self._kept_for
        for job in page:
            if job.created_at > horizon:
                # All following jobs are younger.
                self._after = None
                return
            if is_due(job, self._kept_for, now=self._clock.now()) and not await self._is_needed(
                job
            ):
                await self._remove(job)
            self._after = job.id
        if len(page) < JOBS_PER_STEP:
            self._after = None

    async def _is_needed(self, job: Job) -> bool:
        """Whether an unfinished job depends on this one; the store rechecks dependents."""
        if await self._store.dependents(job.id):
            return True
        parent = await self._store.job(job.parent_id) if job.parent_id is not None else None
        if parent is not None and not parent.finished:
            return True
        children = JobQuery(parent_id=job.id, stages=UNFINISHED, limit=1)
        return bool(await self._store.find_jobs(children))

    async def _remove(self, job: Job) -> None:
        records = JobRecords(
            job,
            await all_records(self._store, Run, prefix=f"{job.id}."),
            await all_records(self._store, Artifact, prefix=f"{job.id}."),
            await self._store.record(Ceiling, job.id),
        )
        if not self._archived:
            event = self._event(event_types.JOB_DELETED, job)
            await self._committer.commit(ACTOR, "delete", *self._removal(records, event))
            return
        try:
            async with self._orphans.reserve(archive_key(job.id)) as note:
                info = await self._file.write(note.key, records, now=self._clock.now())
                now = self._clock.now()
                record = archive_job(job, size=info.size, sha256=info.sha256, now=now)
                await self._committer.commit(
                    ACTOR,
                    "archive",
                    *self._removal(records, self._event(event_types.JOB_ARCHIVED, job)),
                    RecordChange(before=note, after=None),
                    RecordChange(before=None, after=record),
                )
        except Conflict:
            # Another coordinator is archiving it, or died doing so; its reservation expires.
            return

    def _event(self, kind: str, job: Job) -> Event:
        data = {"jobId": job.id, "name": job.name, "stage": job.stage.value}
        return audit_event(kind, ACTOR, self._clock.now(), data, (job.product_id,))

    def _removal(self, records: JobRecords, event: Event) -> list[Write]:
        """Return the writes that remove a job's records and mark its blobs as orphans."""
        job, now = records.job, self._clock.now()
        logs = self._orphans.orphan(f"logs/{job.id}/", now)
        return [
            delete_job(job),
            *(RecordChange(before=run, after=None) for run in records.runs),
            *(RecordChange(before=artifact, after=None) for artifact in records.artifacts),
            *([RecordChange(before=records.ceiling, after=None)] if records.ceiling else []),
            RecordChange(before=None, after=logs.after, events=(event,)),
            self._orphans.orphan(f"artifacts/{job.id}/", now),
        ]
