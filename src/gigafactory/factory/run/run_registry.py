"""Registry of active runs on disk, for crash recovery at the next start."""

from pathlib import Path

import msgspec

from gigafactory.factory.core.data_dir import DataDir, folder_name
from gigafactory.system.atomic_file import write_atomically


class RegisteredRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A started run, and what it may have left on this machine."""

    run_id: str
    job_id: str
    epoch: int
    mark: str
    """The mark that all of its processes carry."""
    repo: str | None
    """The repo of its worktree, as named in the manifest; None for a plain folder."""
    tmp: str | None = None
    """Its folder for temporary files."""
    recoveries: int = 0
    """How often a recovery from its crash was begun; more than once if a recovery crashed too."""


def register(data_dir: DataDir, run: RegisteredRun) -> None:
    """Register a run before it creates anything."""
    write_atomically(
        _file(data_dir, run.run_id), msgspec.json.encode(run), fsync=True, fsync_folder=True
    )


def unregister(data_dir: DataDir, run_id: str) -> None:
    """Unregister a run after its clean-up."""
    _file(data_dir, run_id).unlink(missing_ok=True)


def load_runs(data_dir: DataDir) -> list[RegisteredRun]:
    """Return all registered runs; delete incomplete entries, whose runs had not started."""
    runs = []
    for file in sorted(data_dir.run_registry.glob("*.json")):
        try:
            runs.append(msgspec.json.decode(file.read_bytes(), type=RegisteredRun))
        except (msgspec.DecodeError, UnicodeDecodeError):
            file.unlink(missing_ok=True)
    return runs


def _file(data_dir: DataDir, run_id: str) -> Path:
    return data_dir.run_registry / f"{folder_name(run_id)}.json"
