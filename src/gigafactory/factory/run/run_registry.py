"""Which runs go on here, noted on disk: a factory that starts finds what its predecessor left."""

from pathlib import Path

import msgspec

from gigafactory.factory.core.data_dir import Places, folder_name
from gigafactory.factory.reporting.outbox import write_durably


class LiveRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
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


def note(places: Places, run: LiveRun) -> None:
    """Remember a run before anything of it is there."""
    write_durably(_file(places, run.run_id), msgspec.json.encode(run))


def forget(places: Places, run_id: str) -> None:
    """Nothing of this run is here any more."""
    _file(places, run_id).unlink(missing_ok=True)


def noted(places: Places) -> list[LiveRun]:
    """All runs that nobody has forgotten; half a note is none: its run had not begun."""
    found = []
    for file in sorted(places.live.glob("*.json")):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=LiveRun))
        except msgspec.DecodeError:
            file.unlink(missing_ok=True)
    return found


def _file(places: Places, run_id: str) -> Path:
    return places.live / f"{folder_name(run_id)}.json"
