"""Where a factory keeps things, all below one folder that only its user can enter."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from gigafactory.domain.manifest.names import slugify
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.system.atomic_file import write_atomically

FOLDER_MODE = 0o700
SECRET_MODE = 0o600
NAME_BYTES_MAX = 200
SECRET_BYTES_MAX = 64 * 1024


class DataDir(msgspec.Struct, frozen=True):
    """The folders of one factory; what is a job's own is named after the job."""

    root: Path

    @staticmethod
    def under(data: Path) -> "DataDir":
        """The places of the factory whose data is kept in this folder."""
        return DataDir(data / "factory")

    @property
    def mirrors(self) -> Path:
        """Bare mirrors, one a repo."""
        return self.root / "mirrors"

    @property
    def worktrees(self) -> Path:
        """Worktrees, one a job."""
        return self.root / "worktrees"

    @property
    def homes(self) -> Path:
        """The private homes in which engines run, one a job."""
        return self.root / "homes"

    @property
    def engine_homes(self) -> Path:
        """What people have prepared for engines, a folder each; copied into their jobs' homes."""
        return self.root / "engine-homes"

    @property
    def outbox(self) -> Path:
        """Reports that the coordinator has not taken yet."""
        return self.root / "outbox"

    @property
    def logs(self) -> Path:
        """What runs have printed, one file a run."""
        return self.root / "logs"

    @property
    def run_registry(self) -> Path:
        """Which runs go on, one file a run."""
        return self.root / "live"

    @property
    def quarantine(self) -> Path:
        """Results of runs that were fenced, a folder a job."""
        return self.root / "quarantine"

    @property
    def token_file(self) -> Path:
        """The file with this factory's own token."""
        return self.root / "token"

    def mirror(self, repo: str) -> Path:
        """The mirror of a repo; two repos of one name have two."""
        mark = hashlib.sha256(repo.encode()).hexdigest()[:12]
        return self.mirrors / f"{slugify(repo_name(repo)) or 'repo'}-{mark}.git"

    def worktree(self, job_id: str) -> Path:
        """The worktree of a job."""
        return self.worktrees / folder_name(job_id)

    def home(self, job_id: str) -> Path:
        """The home of a job's engine, kept over its runs."""
        return self.homes / folder_name(job_id)

    def engine_home(self, engine: str) -> Path:
        """What people have prepared for one engine."""
        return self.engine_homes / folder_name(engine)

    def log_file(self, run_id: str) -> Path:
        """The log of one run."""
        return self.logs / f"{folder_name(run_id)}.log"

    def quarantine_folder(self, job_id: str, epoch: int) -> Path:
        """Where the result of a fenced run is kept."""
        return self.quarantine / folder_name(job_id) / str(epoch)

    def create(self) -> None:
        """Make all folders, and close those that are there to everybody else."""
        kept = (self.mirrors, self.worktrees, self.homes, self.outbox, self.logs, self.quarantine)
        for folder in (self.root, self.engine_homes, self.run_registry, *kept):
            make_private_folder(folder)


def folder_name(job_id: str) -> str:
    """A name that is safe for a folder, and from which the id can be told again.

    Raises ValueError for an id that no file system has room for.
    """
    name = quote(job_id, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if name.endswith("."):
        name = name[:-1] + "%2E"
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise ValueError(f"an id of 1 to {NAME_BYTES_MAX} safe characters, not {job_id[:80]!r}")
    return name


def parse_folder_name(folder: str) -> str | None:
    """The job whose folder this is; None for a name that we have not given."""
    job_id = unquote(folder)
    try:
        return job_id if folder_name(job_id) == folder else None
    except ValueError:
        return None


def make_private_folder(folder: Path) -> None:
    """Make a folder, with those above it, that nobody else can enter."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    if stat.S_IMODE(folder.stat().st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)


def temp_folder(mark: str) -> Path:
    """The folder for temporary files of the run with this mark.

    It is not among the others: a socket in it must have a short path, and the name tells nobody
    else the mark.
    """
    name = hashlib.sha256(mark.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"aq-{name}").resolve()


def write_secret(file: Path, secret: str) -> None:
    """Write a secret whole or not at all, in a file that only its user can ever have read."""
    make_private_folder(file.parent)
    write_atomically(file, f"{secret}\n".encode(), mode=SECRET_MODE, fsync=True)


def read_secret(file: Path) -> str | None:
    """The secret in a file; None when there is none. A file that others could read is closed."""
    try:
        with file.open(encoding="utf-8") as secret:
            if os.name == "posix" and stat.S_IMODE(os.fstat(secret.fileno()).st_mode) & 0o077:
                os.fchmod(secret.fileno(), SECRET_MODE)
            return secret.read(SECRET_BYTES_MAX).strip() or None
    except FileNotFoundError:
        return None
