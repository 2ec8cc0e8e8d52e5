"""What is kept of a job: the record, written whole, and its events, a line each."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gigafactory.domain.job.job import Event, Job
from gigafactory.domain.job.run import Run
from gigafactory.folder.queue.board import Board, column_of
from gigafactory.system.atomic_file import write_atomically


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that is known of one job of the folder."""

    key: str
    """The stem that its state, its log and, at first, its file have."""
    file: str
    was: str
    """The column that the file was in before the last step: there it is if the move was lost."""
    stamp: tuple[int, int] = (0, 0)
    """When the file was written, and its size: another one is another file."""
    digest: str = ""
    """Of what was taken in."""
    edited: bool = False
    """Whether the file was written anew when it was too late: that is not what runs."""
    job: Job
    runs: tuple[Run, ...] = ()
    """The newest last: their times, what they used, how they came out."""
    manifest: msgspec.Raw
    """Resolved; it never changes."""
    body: str
    events_bytes: int = 0
    """How much of the file of events counts: what follows was never agreed on."""


def encode(kept: Kept) -> bytes:
    """The record as it lies in its file, for people to read too."""
    return msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n"


def decode(data: bytes) -> Kept:
    """A record that was kept.

    Raises msgspec.DecodeError for what is none.
    """
    return msgspec.json.decode(data, type=Kept)


def keep(board: Board, kept: Kept, events: tuple[Event, ...]) -> Kept:
    """Write the events first, then the record, which makes them count; gives what was written."""
    size = _append(board.events(kept.key), kept.events_bytes, events)
    written = msgspec.structs.replace(kept, events_bytes=size)
    write_atomically(board.record(kept.key), encode(written), fsync=True)
    return written


def _append(path: Path, counted: int, events: tuple[Event, ...]) -> int:
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(handle, "r+b") as out:
        # What a process that died wrote after its last record does not count.
        out.truncate(min(counted, out.seek(0, os.SEEK_END)))
        out.seek(0, os.SEEK_END)
        out.write(lines)
        out.flush()
        os.fsync(out.fileno())
        return out.tell()


def events_of(board: Board, kept: Kept) -> list[Event]:
    """The story of a job, as far as it counts."""
    try:
        data = board.events(kept.key).read_bytes()[: kept.events_bytes]
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=Event) for line in data.splitlines()]


def place(board: Board, kept: Kept) -> Path | None:
    """Where the file of a job is; None when somebody has taken it away."""
    return board.find(kept.file, column_of(kept.job), kept.was)


def stamp_of(path: Path) -> tuple[int, int]:
    """What tells that a file was written anew; moving it changes nothing.

    Raises OSError.
    """
    found = path.stat()
    return (found.st_mtime_ns, found.st_size)


def digest_of(data: bytes) -> str:
    """What tells whether a file says something else than before."""
    return hashlib.sha256(data).hexdigest()


class Records:
    """Reads the records of a board; what has not changed is not read again."""

    def __init__(self, board: Board) -> None:
        """Read from this board."""
        self._board = board
        self._read: dict[str, tuple[tuple[int, int, int], Kept]] = {}

    def all(self) -> Iterator[Kept]:
        """Every record; one that cannot be read is put aside, and made anew from its file."""
        entries = list(self._board.state.glob("*.json"))
        self._read = {p.name: self._read[p.name] for p in entries if p.name in self._read}
        for path in entries:
            kept = self._one(path)
            if kept is not None:
                yield kept

    def _one(self, path: Path) -> Kept | None:
        try:
            found = path.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_size)
            if path.name not in self._read or self._read[path.name][0] != mark:
                self._read[path.name] = (mark, decode(path.read_bytes()))
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            path.replace(path.with_suffix(".json.broken"))
            return None
        return self._read[path.name][1]
