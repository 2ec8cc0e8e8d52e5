"""The status of a folder: its jobs by column, what they wait for, and invalid files."""

from pathlib import Path

import msgspec

from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import format_time
from gigafactory.domain.submission.submission import DEP_FAILED, DEP_MISSING
from gigafactory.folder.queue.board import COLUMNS, column_of, readable_name
from gigafactory.folder.queue.claim import read_claim
from gigafactory.folder.queue.halt import FolderHalt, halted
from gigafactory.folder.queue.record import JobRecord, file_of
from gigafactory.folder.queue.scheduler import order
from gigafactory.folder.queue.store import FolderQueue, leases_of


class BoardLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job on the board."""

    column: str
    file: str
    job: Job
    waits: str | None = None
    """What it waits for, in a few words; None if it does not."""
    pid: int | None = None
    """The process that works on it."""
    edited: bool = False
    """Whether its file was edited after its first run had started: the edit does not run."""


class InvalidFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that is not a valid job."""

    file: str
    errors: tuple[str, ...]


class FolderStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole folder at one moment."""

    folder: str
    jobs: tuple[BoardLine, ...] = ()
    invalid: tuple[InvalidFile, ...] = ()
    new: tuple[str, ...] = ()
    """Files in the inbox that no runner has looked at yet."""
    halted: FolderHalt | None = None
    """Set while no runner may start a job."""


def folder_status(queue: FolderQueue) -> FolderStatus:
    """Return the status of the folder, columns from left to right, next job first."""
    board, records = queue.board, queue.look()
    lines = [_line(queue, each, records) for each in records.values()]
    lines.sort(key=lambda line: (COLUMNS.index(line.column), order(line.job)))
    owned = {file_of(board, each) for each in records.values()}
    failed = [path for path in board.files("failed") if board.errors(path.name).exists()]
    return FolderStatus(
        folder=str(board.root),
        jobs=tuple(lines),
        invalid=tuple(
            InvalidFile(file=readable_name(path), errors=_error_lines(board.errors(path.name)))
            for path in failed
        ),
        new=tuple(readable_name(path) for path in board.files("inbox") if path not in owned),
        halted=halted(board),
    )


def _error_lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8", errors="replace").splitlines())


def _line(queue: FolderQueue, record: JobRecord, jobs: dict[str, JobRecord]) -> BoardLine:
    claim = read_claim(queue.board, record.key) if leases_of(record.job) else None
    return BoardLine(
        column=column_of(record.job),
        file=record.file,
        job=record.job,
        waits=_waits(record.job, jobs),
        pid=claim.pid if claim else None,
        edited=record.edited,
    )


def _waits(job: Job, jobs: dict[str, JobRecord]) -> str | None:
    if job.stage is Stage.BLOCKED and job.terms.schedule is not None and job.not_before:
        return f"runs a copy at {format_time(job.not_before)} ({job.terms.schedule})"
    if job.stage is Stage.BLOCKED:
        names = [jobs[dep].job.name if dep in jobs else dep for dep in job.deps]
        ended = "; one of them ended without being shipped" if DEP_FAILED in job.flags else ""
        missing = "; some of them do not exist" if DEP_MISSING in job.flags else ""
        return f"waits for {', '.join(names)}{missing}{ended}"
    if job.stage is Stage.QUEUED and job.not_before is not None:
        return f"not before {format_time(job.not_before)}" + (
            f": {job.reason}" if job.reason else ""
        )
    return None
