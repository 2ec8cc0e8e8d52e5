"""The board: folders as columns, and the files that move between them."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG

import msgspec

from gigafactory.domain.errors import Invalid, Refused
from gigafactory.domain.job.job import BOARD, Job, Stage
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.system.atomic_file import write_atomically

COLUMNS = tuple(BOARD)
SUFFIX = ".md"
ERRORS = ".errors.txt"
STEM_BYTES_MAX = 180
IGNORED = {
    ".state": "/diffs/\n/lock\n/work/\n.*.new\n",
    "building": ".*.claim\n",
}
"""What git should ignore where the folder is in a repo: temporary and large files."""

_COLUMN_OF = {stage: column for column, stages in BOARD.items() for stage in stages}


def column_of(job: Job) -> str:
    """Return the column of a job's file; a leased job is in `building`."""
    return "building" if job.stage is Stage.ASSIGNED else _COLUMN_OF[job.stage]


class Board(msgspec.Struct, frozen=True):
    """The paths of one queue."""

    root: Path

    @property
    def state(self) -> Path:
        """Return the folder of the records."""
        return self.root / ".state"

    @property
    def lock(self) -> Path:
        """Return the lock that is held during every change."""
        return self.state / "lock"

    @property
    def halted(self) -> Path:
        """Return the file that exists while the folder is halted: by whom, and why."""
        return self.state / "halted"

    @property
    def data_dir(self) -> DataDir:
        """Return the data folder of runs."""
        return DataDir(self.state / "work")

    @property
    def profiles(self) -> Path:
        """Return the folder's own profiles, as people write them."""
        return self.root / "profiles"

    @property
    def versions(self) -> Path:
        """Return the folder of all versions of those profiles."""
        return self.state / "profiles"

    def column(self, name: str) -> Path:
        """Return the folder of a column."""
        return self.root / name

    def log(self, key: str) -> Path:
        """Return the log of a job's runs."""
        return self.root / "logs" / f"{key}.log"

    def artifacts(self, key: str) -> Path:
        """Return the folder of a job's artifacts."""
        return self.root / "artifacts" / key

    def diff(self, key: str) -> Path:
        """Return the diff of the newest run of a job."""
        return self.state / "diffs" / f"{key}.json"

    def claim(self, key: str) -> Path:
        """Return the claim file of a job, beside its file; locked while a process works on it."""
        return self.root / "building" / f".{key}.claim"

    def ticket_cursor(self, key: str) -> Path:
        """Return the file that records which updates the ticket of a job has received."""
        return self.state / f"{key}.echo"

    def record(self, key: str) -> Path:
        """Return the record of a job."""
        return self.state / f"{key}.json"

    def events(self, key: str) -> Path:
        """Return the event log of a job, one event per line."""
        return self.state / f"{key}.events.jsonl"

    def errors(self, file: str) -> Path:
        """Return the file with the faults of an invalid job file."""
        return self.column("failed") / f"{Path(file).stem}{ERRORS}"

    def create(self) -> None:
        """Create missing folders and files."""
        for name in (*COLUMNS, "logs", ".state"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for folder, ignored in IGNORED.items():
            place = self.root / folder / ".gitignore"
            if not place.exists():
                write_atomically(place, ignored.encode(), fsync=True)

    @property
    def exists(self) -> bool:
        """Return whether this folder is a queue."""
        return (self.root / "inbox").is_dir() and self.state.is_dir()

    def files(self, column: str) -> list[Path]:
        """Return the job files of a column, oldest first."""
        ages = {path: _age(path) for path in self.column(column).glob(f"*{SUFFIX}")}
        return [path for _, _, path in sorted((a, p.name, p) for p, a in ages.items() if a)]

    def find(self, file: str, *columns: str) -> Path | None:
        """Return the path of a file in these columns, or None."""
        places = (self.column(column) / file for column in columns)
        return next((path for path in places if path.is_file()), None)

    def free_stem(self, stem: str, *, own: Path | None = None) -> str:
        """Return a stem close to this one that no file or record has."""
        for candidate in _candidates(stem):
            taken = any(
                path.exists() and path != own
                for path in (self.column(name) / f"{candidate}{SUFFIX}" for name in COLUMNS)
            )
            if not taken and not self.record(candidate).exists():
                return candidate
        raise AssertionError("the candidates never end")

    def move(self, path: Path, column: str) -> Path:
        """Move a file to a column atomically, never over another file."""
        wanted = self.column(column) / path.name
        if path == wanted:
            return path
        if wanted.exists():
            wanted = wanted.with_stem(self.free_stem(path.stem))
        path.rename(wanted)
        return wanted

    def refuse(self, path: Path, refused: Refused) -> Path:
        """Move an invalid file to `failed/`, with its faults in a file beside it."""
        if (readable := readable_name(path)) != path.name:
            stem = self.free_stem(readable.removesuffix(SUFFIX))
            path = path.rename(path.with_name(f"{stem}{SUFFIX}"))
        moved = self.move(path, "failed")
        faults = refused.faults if isinstance(refused, Invalid) else ()
        lines = [str(fault) for fault in faults] or [refused.detail]
        write_atomically(
            self.errors(moved.name),
            "".join(f"{line}\n" for line in lines).encode(errors="replace"),
            fsync=True,
        )
        return moved


def readable_name(path: Path) -> str:
    """Return the name of a file, with � for bytes that are not UTF-8."""
    return os.fsencode(path.name).decode(errors="replace")


def _age(path: Path) -> int | None:
    """Return when a file was written; None if it is hidden, empty or gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    usable = S_ISREG(status.st_mode) and status.st_size > 0 and not path.name.startswith(".")
    return status.st_mtime_ns if usable else None


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1
