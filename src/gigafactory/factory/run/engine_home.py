"""The home of a job's engine: what people and we put into it, and what the engine left there.

Between runs a home is as the engine has left it: a link in it may lead anywhere, so nothing is
written through one.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gigafactory.domain.errors import Forbidden, Refused
from gigafactory.system.atomic_file import write_atomically

SIDE_FILE_BYTES_MAX = 20 * 1024 * 1024
SIDE_FILES_MAX = 50
FILE_MODE = 0o600


class EngineHomeInvalid(Refused):
    """Something in the home of a job is not what we would have put there."""

    code = "home_spoilt"


def write_files(home: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a home by their relative paths, in place of whatever is there.

    Raises HomeSpoilt where a folder on the way is a link out of the home.
    """
    for name, data in files.items():
        write_atomically(_prepare_path(home, name), data, mode=FILE_MODE)


def copy_prepared_files(home: Path, given: Path) -> None:
    """Copy what people have prepared for an engine into a home, as far as it is new.

    What the engine itself has changed later, such as a renewed credential, stays. Raises
    HomeSpoilt, as `put` does.
    """
    for source in sorted(path for path in given.rglob("*") if path.is_file()):
        place = _prepare_path(home, str(source.relative_to(given)))
        told = source.stat()
        if place.is_symlink() or not place.exists() or place.stat().st_mtime < told.st_mtime:
            write_atomically(place, source.read_bytes(), mode=told.st_mode & 0o700)
            os.utime(place, ns=(told.st_atime_ns, told.st_mtime_ns), follow_symlinks=False)


def read_side_files(home: Path, globs: Iterable[str]) -> dict[str, bytes]:
    """The newest files that the globs mean, as far as they are small enough to read."""
    found = {place for glob in globs for place in home.glob(glob) if place.is_file()}
    newest = sorted(found, key=lambda place: place.stat().st_mtime)[-SIDE_FILES_MAX:]
    return {
        str(place.relative_to(home)): place.read_bytes()
        for place in newest
        if place.stat().st_size <= SIDE_FILE_BYTES_MAX
    }


def _prepare_path(home: Path, name: str) -> Path:
    """Where a file goes; the folders above it are made, and are really there."""
    place = home / name
    real = home.resolve()
    for folder in reversed(place.relative_to(home).parents):
        here = home / folder
        if here.resolve() != real / folder or (here.exists() and not here.is_dir()):
            raise EngineHomeInvalid(
                f"{here} is not a folder of this home; remove it, and requeue the job"
            )
        here.mkdir(exist_ok=True, mode=0o700, parents=True)
    return place


def find_repo_settings(worktree: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Those of the names that are there.

    Raises Forbidden for one that is reached through a link: where that leads is another matter for
    the engine than for us.
    """
    return tuple(_found(worktree, names))


def _found(worktree: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = worktree / name
        steps = (path, *path.parents[: len(Path(name).parts) - 1])
        if any(step.is_symlink() for step in steps):
            raise Forbidden(
                f"{name} of the repo is a link, or behind one; the engine would take its settings"
                " from there: make it a plain file or folder, or remove it"
            )
        if path.exists():
            yield path
