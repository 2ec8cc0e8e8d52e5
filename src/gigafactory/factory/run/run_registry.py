"""Which runs go on here, noted on disk: a factory that starts finds what its predecessor left."""

from pathlib import Path

import msgspec

from gigafactory.factory.core.data_dir import DataDir, folder_name
from gigafactory.system.atomic_file import write_atomically


class RegisteredRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that has begun, and what of it there may be on this machine."""

    run_id: str
    job_id: str
    epoch: int
    mark: str
    """What every process of it carries."""
    repo: str | None
    """The repo of its worktree, as the job names it; None for a plain folder."""
    tmp: str | None = None
    """Its folder for temporary files."""


def register(data_dir: DataDir, run: RegisteredRun) -> None:
    """Remember a run before anything of it is there."""
    write_atomically(
        _file(data_dir, run.run_id), msgspec.json.encode(run), fsync=True, fsync_folder=True
    )


def unregister(data_dir: DataDir, run_id: str) -> None:
    """Nothing of this run is here any more."""
    _file(data_dir, run_id).unlink(missing_ok=True)


def load_runs(data_dir: DataDir) -> list[RegisteredRun]:
    """All runs that nobody has forgotten; half a note is none: its run had not begun."""
    found = []
    for file in sorted(data_dir.run_registry.glob("*.json")):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=RegisteredRun))
        except msgspec.DecodeError:
            file.unlink(missing_ok=True)
    return found


def _file(data_dir: DataDir, run_id: str) -> Path:
    return data_dir.run_registry / f"{folder_name(run_id)}.json"
