"""The folders that are the board, and the files that move between them."""

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
"""What git should not look at, where the folder is in a repo: what passes, and what is large."""

_COLUMN_OF = {stage: column for column, stages in BOARD.items() for stage in stages}


def column_of(job: Job) -> str:
    """Where the file of a job lies; whoever has a job has its file in `building`."""
    return "building" if job.stage is Stage.ASSIGNED else _COLUMN_OF[job.stage]


class Board(msgspec.Struct, frozen=True):
    """The places of one queue."""

    root: Path

    @property
    def state(self) -> Path:
        """What is known of the jobs."""
        return self.root / ".state"

    @property
    def lock(self) -> Path:
        """Held for the moment of every change."""
        return self.state / "lock"

    @property
    def halted(self) -> Path:
        """There while no runner may begin with a job: who wants it so, and why."""
        return self.state / "halted"

    @property
    def data_dir(self) -> DataDir:
        """Where runs work."""
        return DataDir(self.state / "work")

    @property
    def profiles(self) -> Path:
        """The folder's own profiles, as people write them."""
        return self.root / "profiles"

    @property
    def versions(self) -> Path:
        """All versions that those profiles have had."""
        return self.state / "profiles"

    def column(self, name: str) -> Path:
        """One folder of the board."""
        return self.root / name

    def log(self, key: str) -> Path:
        """What the runs of a job have printed."""
        return self.root / "logs" / f"{key}.log"

    def artifacts(self, key: str) -> Path:
        """The files that the runs of a job have left behind."""
        return self.root / "artifacts" / key

    def diff(self, key: str) -> Path:
        """What the newest run of a job has changed."""
        return self.state / "diffs" / f"{key}.json"

    def claim(self, key: str) -> Path:
        """Who works on a job; held while somebody does, and beside its file."""
        return self.root / "building" / f".{key}.claim"

    def trail(self, key: str) -> Path:
        """How far the ticket of a job was told of it."""
        return self.state / f"{key}.echo"

    def record(self, key: str) -> Path:
        """What is known of a job."""
        return self.state / f"{key}.json"

    def events(self, key: str) -> Path:
        """The story of a job, a line an event."""
        return self.state / f"{key}.events.jsonl"

    def errors(self, file: str) -> Path:
        """What is wrong with a file that is no job."""
        return self.column("failed") / f"{Path(file).stem}{ERRORS}"

    def create(self) -> None:
        """Make what is missing of it."""
        for name in (*COLUMNS, "logs", ".state"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for folder, ignored in IGNORED.items():
            place = self.root / folder / ".gitignore"
            if not place.exists():
                write_atomically(place, ignored.encode(), fsync=True)

    @property
    def exists(self) -> bool:
        """Whether this folder is a queue."""
        return (self.root / "inbox").is_dir() and self.state.is_dir()

    def files(self, column: str) -> list[Path]:
        """The job files of a column, the oldest first."""
        ages = {path: _age(path) for path in self.column(column).glob(f"*{SUFFIX}")}
        return [path for _, _, path in sorted((a, p.name, p) for p, a in ages.items() if a)]

    def find(self, file: str, *columns: str) -> Path | None:
        """Where a file is, of these columns."""
        places = (self.column(column) / file for column in columns)
        return next((path for path in places if path.is_file()), None)

    def free_stem(self, stem: str, *, own: Path | None = None) -> str:
        """A stem that no file of the board has, nor a record, as near to this one as can be."""
        for candidate in _candidates(stem):
            taken = any(
                path.exists() and path != own
                for path in (self.column(name) / f"{candidate}{SUFFIX}" for name in COLUMNS)
            )
            if not taken and not self.record(candidate).exists():
                return candidate
        raise AssertionError("there is always a next number")

    def move(self, path: Path, column: str) -> Path:
        """Move a file to a column at once; never over another one."""
        wanted = self.column(column) / path.name
        if path == wanted:
            return path
        if wanted.exists():
            wanted = wanted.with_stem(self.free_stem(path.stem))
        path.rename(wanted)
        return wanted

    def refuse(self, path: Path, refused: Refused) -> Path:
        """Put what is no job away, with all that is wrong with it beside it."""
        moved = self.move(path, "failed")
        faults = refused.faults if isinstance(refused, Invalid) else ()
        lines = [str(fault) for fault in faults] or [refused.detail]
        write_atomically(
            self.errors(moved.name), "".join(f"{line}\n" for line in lines).encode(), fsync=True
        )
        return moved


def _age(path: Path) -> int | None:
    """When a file was written; None for what is hidden, or not written yet, or gone again."""
    try:
        found = path.stat()
    except OSError:
        return None
    usable = S_ISREG(found.st_mode) and found.st_size > 0 and not path.name.startswith(".")
    return found.st_mtime_ns if usable else None


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1
