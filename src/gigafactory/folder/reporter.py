"""Reports of a run into a folder: each report is a step of its job, by the rules of the fleet."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from gigafactory.domain.errors import Conflict, Fenced, Refused
from gigafactory.domain.job.artifact import ArtifactUpload, Purpose, add_artifact, new_artifact
from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lease import record_fenced, require_lease
from gigafactory.domain.job.run import Run, add_edited_lines, newest_work
from gigafactory.domain.job.worker_report import Report, change_for, run_after
from gigafactory.domain.tracker.defect import Defect, DefectSource, report_defect
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.reporting.log_sender import RunLog
from gigafactory.factory.reporting.reporter import UploadableFile
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.store import FolderQueue, LockedQueue
from gigafactory.system.atomic_file import write_atomically
from gigafactory.wire.reports import ReportDoc

log = structlog.get_logger()


class FolderReporter:
    """Reports to the record of a job."""

    def __init__(
        self,
        queue: FolderQueue,
        factory_id: str,
        assignment: Assignment,
        fenced: Callable[[], None],
    ) -> None:
        """Report on this run; call `fenced` when the job is no longer ours."""
        self._queue = queue
        self._factory_id = factory_id
        self._job_id = assignment.job_id
        self._epoch = assignment.epoch
        self._fenced = fenced

    def report(self, report: Report, *, last: bool = False) -> None:
        del last
        with self._queue.open() as locked:
            record = locked.records.get(self._job_id)
            if record is None:
                self._fenced()
                return
            try:
                change = change_for(record.job, self._factory_id, report, now=locked.now)
            except Fenced:
                self._record_fenced(locked, record)
                return
            except Refused as refused:
                log.warning(
                    "report refused",
                    job=record.job.name,
                    report=ReportDoc.from_domain(report).fields,
                    reason=refused.detail,
                )
                return
            if change is not None:
                run = run_after(_run(record, self._epoch), change, report, now=locked.now)
                locked.commit(change, *_with_edited_lines(record, report), run)

    def _record_fenced(self, locked: LockedQueue, record: JobRecord) -> None:
        change = record_fenced(record.job, self._factory_id, self._epoch, now=locked.now)
        if change is not None:
            locked.commit(change)
        self._fenced()

    async def confirm_lease(self) -> bool:
        record = self._queue.look().get(self._job_id)
        try:
            return bool(record and require_lease(record.job, self._factory_id, self._epoch))
        except Fenced:
            return False

    async def send_log(self, source: RunLog) -> None:
        record = self._queue.look().get(self._job_id)
        if record is None:
            return
        file = self._queue.board.log(record.key)
        offset = 0
        with file.open("ab", buffering=0) as out:
            while True:
                ended = source.ended.is_set()
                source.has_more.clear()
                while chunk := source.read(offset):
                    out.write(chunk)
                    offset += len(chunk)
                if ended:
                    return
                await source.has_more.wait()

    async def report_revert(self, job_id: str, commit: str) -> None:
        with self._queue.open() as locked:
            record = locked.records.get(job_id)
            if record is None or record.job.stage is not Stage.SHIPPED:
                return
            defect = Defect(source=DefectSource.REVERT, reference=commit)
            try:
                change = report_defect(
                    record.job, defect, f"factory:{self._factory_id}", now=locked.now
                )
            except Conflict:
                return
            if change is not None:
                locked.commit(change)

    async def fleet_access(self) -> None:
        """Do nothing."""

    async def add_artifact(self, file: UploadableFile) -> None:
        record = self._queue.look().get(self._job_id)
        if record is None:
            raise Fenced(self._job_id, request_epoch=self._epoch, current=0)
        board = self._queue.board
        place = board.artifacts(record.key) / file.name
        if file.purpose is Purpose.DIFF:
            place = board.diff(record.key)
        try:
            await asyncio.to_thread(_write, place, file)
        except OSError as error:
            raise Conflict(f"{place} cannot be written: {error.strerror}") from None
        offered = ArtifactUpload(
            name=file.name, sha256=file.sha256, media_type=file.media_type, purpose=file.purpose
        )
        with self._queue.open() as locked:
            job = locked.records[self._job_id].job
            artifact = new_artifact(
                job,
                offered,
                file.size,
                unique=locked.ids.new(locked.now),
                lease=require_lease(job, self._factory_id, self._epoch),
                actor=f"factory:{self._factory_id}",
                now=locked.now,
            )
            locked.commit(add_artifact(job, artifact, now=locked.now))


def _write(place: Path, file: UploadableFile) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, file.pieces())


def _with_edited_lines(record: JobRecord, report: Report) -> Iterator[Run]:
    work = newest_work(record.runs)
    if report.edited_lines is not None and work is not None:
        yield add_edited_lines(work, report.edited_lines)


def _run(record: JobRecord, epoch: int) -> Run:
    return next(run for run in record.runs if run.epoch == epoch)
