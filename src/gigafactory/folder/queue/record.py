"""The record of a job, written atomically, and its events, one per line."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gigafactory.domain.job.job import Event, Job
from gigafactory.domain.job.run import Run
from gigafactory.folder.queue.board import Board, column_of
from gigafactory.system.atomic_file import write_atomically


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that is known of one job of the folder."""

    key: str
    """The stem of its record, its log and, at first, its file."""
    file: str
    was: str
    """The column of the file before the last step: it is still there if the move was lost."""
    stamp: tuple[int, int] = (0, 0)
    """Modification time and size of the file: if they differ, it was changed."""
    digest: str = ""
    """Of the content that was taken in."""
    edited: bool = False
    """Whether the file was edited too late: the edit does not run."""
    job: Job
    runs: tuple[Run, ...] = ()
    """Newest last: times, usage and outcome."""
    manifest: msgspec.Raw
    """Resolved; it never changes."""
    body: str
    events_bytes: int = 0
    """The valid length of the event file: what follows was never committed."""


def encode(record: JobRecord) -> bytes:
    """Return the record as written to its file, readable for people."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def decode(data: bytes) -> JobRecord:
    """Decode a record.

    Raises ValueError.
    """
    try:
        return msgspec.json.decode(data, type=JobRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def write_record(board: Board, record: JobRecord, events: tuple[Event, ...]) -> JobRecord:
    """Write the events, then the record that commits them; return the record."""
    size = _append(board.events(record.key), record.events_bytes, events)
    written = msgspec.structs.replace(record, events_bytes=size)
    write_atomically(board.record(record.key), encode(written), fsync=True)
    return written


def _append(path: Path, counted: int, events: tuple[Event, ...]) -> int:
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(handle, "r+b") as out:
        # Drop what a process that died wrote without committing it.
        out.truncate(min(counted, out.seek(0, os.SEEK_END)))
        out.seek(0, os.SEEK_END)
        out.write(lines)
        out.flush()
        os.fsync(out.fileno())
        return out.tell()


def events_of(board: Board, record: JobRecord) -> list[Event]:
    """Return the committed events of a job."""
    try:
        data = board.events(record.key).read_bytes()[: record.events_bytes]
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Event) for line in data.splitlines()]


def file_of(board: Board, record: JobRecord) -> Path | None:
    """Return the path of a job's file; None if it was removed."""
    return board.find(record.file, column_of(record.job), record.was)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return what changes when a file is edited, but not when it is moved.

    Raises OSError.
    """
    status = path.stat()
    return (status.st_mtime_ns, status.st_size)


def digest_of(data: bytes) -> str:
    """Return a hash of the content."""
    return hashlib.sha256(data).hexdigest()


class Records:
    """Reads the records of a board, unchanged ones only once."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._read: dict[str, tuple[tuple[int, int, int], JobRecord]] = {}

    def all(self) -> Iterator[JobRecord]:
        """Yield every record; an unreadable one is set aside and rebuilt from its file."""
        entries = list(self._board.state.glob("*.json"))
        self._read = {p.name: self._read[p.name] for p in entries if p.name in self._read}
        for path in entries:
            record = self._one(path)
            if record is not None:
                yield record

    def _one(self, path: Path) -> JobRecord | None:
        try:
            status = path.stat()
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if path.name not in self._read or self._read[path.name][0] != mark:
                self._read[path.name] = (mark, decode(path.read_bytes()))
        except FileNotFoundError:
            return None
        except ValueError:
            path.replace(path.with_suffix(".json.broken"))
            return None
        return self._read[path.name][1]
