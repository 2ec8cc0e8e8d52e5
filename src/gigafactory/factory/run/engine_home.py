"""The home folder of a job's engine: files put into it, and side files read from it.

Engines can create links in their home, so nothing is written through a link.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from gigafactory.domain.errors import Forbidden, Refused
from gigafactory.system.atomic_file import write_atomically

SIDE_FILE_BYTES_MAX = 20 * 1024 * 1024
SIDE_FILES_MAX = 50
ENTRIES_MAX = 10_000
FILE_MODE = 0o600


class EngineHomeInvalid(Refused):
    """The home folder of a job contains something that the factory did not create."""

    code = "home_spoilt"


def write_files(home: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a home by their relative paths; overwrite existing ones.

    Raises EngineHomeInvalid if a folder on the path is a link out of the home.
    """
    for name, data in files.items():
        write_atomically(_prepare_path(home, name), data, mode=FILE_MODE)


def copy_prepared_files(home: Path, given: Path) -> None:
    """Copy the files that people prepared for an engine into a home, if they are newer.

    Files that the engine changed later, such as a renewed credential, are kept. Raises
    EngineHomeInvalid.
    """
    for source in sorted(path for path in given.rglob("*") if path.is_file()):
        place = _prepare_path(home, str(source.relative_to(given)))
        status = source.stat()
        if place.is_symlink() or not place.exists() or place.stat().st_mtime < status.st_mtime:
            write_atomically(place, source.read_bytes(), mode=status.st_mode & 0o700)
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def read_side_files(home: Path, globs: Iterable[str]) -> dict[str, bytes]:
    """Return the newest files that match the globs, without files above the size limit.

    Links are not followed, and only so many entries of the home are looked at: the agent can put
    anything there.
    """
    left = iter(range(ENTRIES_MAX))
    matches: dict[str, float] = {}
    with _opened(home) as folder:
        for glob in globs:
            matches |= dict(_matching(folder, glob.split("/"), left))
        newest = sorted(matches, key=matches.__getitem__)[-SIDE_FILES_MAX:]
        contents = ((name, _read_file(folder, name)) for name in newest)
        return {name: data for name, data in contents if data is not None}


def _matching(folder: int, parts: list[str], left: Iterator[int]) -> Iterator[tuple[str, float]]:
    """Yield path and time of the regular files below an open folder that match a split glob."""
    wanted, *rest = parts
    # A folder is read to its end before its descriptor is used again.
    names = [name for name, _ in zip(os.listdir(folder), left, strict=False)]
    for name in names:
        if not fnmatchcase(name, wanted):
            continue
        try:
            with _opened(name, folder) as entry:
                status = os.fstat(entry)
                if not rest and stat.S_ISREG(status.st_mode):
                    yield name, status.st_mtime
                elif rest and stat.S_ISDIR(status.st_mode):
                    for path, at in _matching(entry, rest, left):
                        yield f"{name}/{path}", at
        except OSError:
            continue


def _read_file(folder: int, path: str) -> bytes | None:
    """Return the content of a file below an open folder; None if it is too large or gone."""
    first, _, rest = path.partition("/")
    try:
        with _opened(first, folder) as entry:
            if rest:
                return _read_file(entry, rest)
            with os.fdopen(os.dup(entry), "rb") as file:
                data = file.read(SIDE_FILE_BYTES_MAX + 1)
            return data if len(data) <= SIDE_FILE_BYTES_MAX else None
    except OSError:
        return None


@contextmanager
def _opened(path: str | Path, folder: int | None = None) -> Iterator[int]:
    """Open a file or folder for reading, without following a link or waiting for a pipe."""
    handle = os.open(
        path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    try:
        yield handle
    finally:
        os.close(handle)


def _prepare_path(home: Path, name: str) -> Path:
    """Return the path of a file; create its folders, and refuse links on the way."""
    place = home / name
    real = home.resolve()
    for folder in reversed(place.relative_to(home).parents):
        folder_path = home / folder
        if folder_path.resolve() != real / folder or (
            folder_path.exists() and not folder_path.is_dir()
        ):
            raise EngineHomeInvalid(
                f"{folder_path} is not a folder of this home; remove it, and requeue the job"
            )
        folder_path.mkdir(exist_ok=True, mode=0o700, parents=True)
    return place


def find_repo_settings(worktree: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Return the engine settings that exist in the repo.

    Raises Forbidden for a path behind a link: the engine would resolve it differently.
    """
    return tuple(_find_source_files(worktree, names))


def _find_source_files(worktree: Path, names: Iterable[str]) -> Iterator[Path]:
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
