"""The data folders of a factory: one root that only its user can access."""

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
    """The folders of one factory; per-job folders are named after the job id."""

    root: Path

    @staticmethod
    def under(data: Path) -> "DataDir":
        """Return the data folders of the factory whose data is kept in `data`."""
        return DataDir(data / "factory")

    @property
    def mirrors(self) -> Path:
        """Bare mirrors, one per repo."""
        return self.root / "mirrors"

    @property
    def worktrees(self) -> Path:
        """Worktrees, one per job."""
        return self.root / "worktrees"

    @property
    def homes(self) -> Path:
        """Private home folders in which engines run, one per job."""
        return self.root / "homes"

    @property
    def sessions(self) -> Path:
        """Usage of the engine's session, one file per job, where no run can write."""
        return self.root / "sessions"

    @property
    def engine_homes(self) -> Path:
        """Files prepared by people, one folder per engine; copied into the homes of its jobs."""
        return self.root / "engine-homes"

    @property
    def outbox(self) -> Path:
        """Reports that the coordinator has not accepted yet."""
        return self.root / "outbox"

    @property
    def logs(self) -> Path:
        """Output of runs, one file per run."""
        return self.root / "logs"

    @property
    def run_registry(self) -> Path:
        """Records of active runs, one file per run."""
        return self.root / "live"

    @property
    def quarantine(self) -> Path:
        """Work of fenced and dead runs, one folder per job."""
        return self.root / "quarantine"

    @property
    def token_file(self) -> Path:
        """The file with the token of this factory."""
        return self.root / "token"

    def mirror(self, repo: str) -> Path:
        """Return the folder of a repo's mirror; repos with equal names have different mirrors."""
        mark = hashlib.sha256(repo.encode()).hexdigest()[:12]
        return self.mirrors / f"{slugify(repo_name(repo)) or 'repo'}-{mark}.git"

    def worktree(self, job_id: str) -> Path:
        """Return the worktree folder of a job."""
        return self.worktrees / folder_name(job_id)

    def home(self, job_id: str) -> Path:
        """Return the home folder of a job's engine; it is kept across runs."""
        return self.homes / folder_name(job_id)

    def session_file(self, job_id: str) -> Path:
        """Return the file with the usage of the engine's session of a job."""
        return self.sessions / f"{folder_name(job_id)}.json"

    def engine_home(self, engine: str) -> Path:
        """Return the folder with the files that people prepared for an engine."""
        return self.engine_homes / folder_name(engine)

    def log_file(self, run_id: str) -> Path:
        """Return the log file of a run."""
        return self.logs / f"{folder_name(run_id)}.log"

    def quarantine_folder(self, job_id: str, epoch: int) -> Path:
        """Return the folder that keeps the work of a fenced or dead run."""
        return self.quarantine / folder_name(job_id) / str(epoch)

    def create(self) -> None:
        """Create all folders and restrict existing ones to the user."""
        folders = (
            self.mirrors,
            self.worktrees,
            self.homes,
            self.sessions,
            self.outbox,
            self.logs,
            self.quarantine,
        )
        for folder in (self.root, self.engine_homes, self.run_registry, *folders):
            make_private_folder(folder)


def folder_name(job_id: str) -> str:
    """Return a safe folder name for a job id; `parse_folder_name` reverses it.

    Raises ValueError for an id that is empty or too long for a file name.
    """
    name = quote(job_id, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if name.endswith("."):
        name = name[:-1] + "%2E"
    if not 0 < len(name) <= NAME_BYTES_MAX:
        raise ValueError(
            f"expected an id of 1 to {NAME_BYTES_MAX} safe characters, found {job_id[:80]!r}"
        )
    return name


def parse_folder_name(folder: str) -> str | None:
    """Return the job id of a folder name; None if no job has a folder of that name."""
    job_id = unquote(folder)
    try:
        return job_id if folder_name(job_id) == folder else None
    except ValueError:
        return None


def make_private_folder(folder: Path) -> None:
    """Create a folder, with its parents, that only the user can access."""
    folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    if stat.S_IMODE(folder.stat().st_mode) != FOLDER_MODE:
        folder.chmod(FOLDER_MODE)


def temp_folder(mark: str) -> Path:
    """Return the folder for temporary files of the run with this process mark.

    It lies outside of the data folders, because sockets need a short path. The name is a hash, so
    that it does not reveal the mark.
    """
    name = hashlib.sha256(mark.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"aq-{name}").resolve()


def write_secret(file: Path, secret: str) -> None:
    """Write a secret atomically to a file that only the user can read."""
    make_private_folder(file.parent)
    write_atomically(file, f"{secret}\n".encode(), mode=SECRET_MODE, fsync=True)


def read_secret(file: Path) -> str | None:
    """Return the secret in a file, or None; restrict a file that others could read."""
    try:
        with file.open(encoding="utf-8") as secret:
            if os.name == "posix" and stat.S_IMODE(os.fstat(secret.fileno()).st_mode) & 0o077:
                os.fchmod(secret.fileno(), SECRET_MODE)
            return secret.read(SECRET_BYTES_MAX).strip() or None
    except FileNotFoundError:
        return None
