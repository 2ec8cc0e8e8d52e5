"""Copies files out of a worktree that an agent may be writing to, and nothing from outside it.

Git opens files by path. In a worktree that changes meanwhile, a path that was a file when git
looked can be a link to a secret of the host when git reads. So files are opened here, folder by
folder and never through a link, and git gets copies in a folder of our own.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

import msgspec

FILE_BYTES_MAX = 50 * 1024 * 1024
RUN_FOLDER = b".aq"
NEVER_COMMITTED = b".aq/pr.md"
_CHUNK_BYTES = 1024 * 1024
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_INVISIBLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_FOLDER = re.compile(r"(?:\.git|git~[0-9]+)[. ]*(?::.*)?", re.IGNORECASE)


class SkipReason(StrEnum):
    """Why a path is not in a snapshot."""

    TOO_LARGE = "too_large"
    NESTED_REPO = "nested_repo"
    SUBMODULE = "submodule"
    UNREADABLE = "unreadable"
    NAME = "name"
    """Git would treat a file of this name as its own."""


class SkippedPath(msgspec.Struct, frozen=True):
    """A path of the worktree that is not in a snapshot."""

    path: str
    why: SkipReason


class CopiedPaths(msgspec.Struct, frozen=True):
    """The result of copying paths."""

    files: tuple[bytes, ...]
    """Copied files, in the staging folder."""
    links: tuple[tuple[bytes, bytes], ...]
    """Links and their targets; created in the staging folder, too."""
    gone: tuple[bytes, ...]
    folders: tuple[bytes, ...]
    """Paths that are now folders."""
    left_out: tuple[SkippedPath, ...]


def printable_path(path: bytes) -> str:
    """Return a path as printable text."""
    return path.decode("utf-8", "backslashreplace")


def is_git_internal(path: bytes) -> bool:
    """Return whether some file system would take a part of the path for `.git`."""
    parts = path.decode("utf-8", "replace").split("/")
    return any(_GIT_FOLDER.fullmatch(_INVISIBLE.sub("", part)) for part in parts)


def copy_paths(
    worktree: Path, paths: Iterable[bytes], staging: Path, *, file_bytes_max: int = FILE_BYTES_MAX
) -> CopiedPaths:
    """Copy these paths of the worktree into the empty folder `staging`."""
    files: list[bytes] = []
    links: list[tuple[bytes, bytes]] = []
    missing: list[bytes] = []
    folders: list[bytes] = []
    left_out: list[SkippedPath] = []
    target = os.fsencode(staging)
    with _open_root(worktree) as root:
        for path in sorted(paths):
            entry = _copy_entry(root, path, target, file_bytes_max)
            match entry:
                case True:
                    files.append(path)
                case None:
                    missing.append(path)
                case bytes():
                    links.append((path, entry))
                case SkipReason():
                    left_out.append(SkippedPath(printable_path(path), entry))
                case False:
                    folders.append(path)
    # Links come last, so that no file is ever written through one.
    made = [link for link in links if _make_link(target, *link)]
    return CopiedPaths(tuple(files), tuple(made), tuple(missing), tuple(folders), tuple(left_out))


class _FolderDescriptors:
    """Opens folders below a root one by one, and keeps the last one open for its siblings."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._last: tuple[bytes, int] | None = None

    def folder(self, path: bytes) -> int:
        if not path:
            return self._root
        if self._last is not None and self._last[0] == path:
            return self._last[1]
        self.close()
        descriptor = os.dup(self._root)
        for part in path.split(b"/"):
            above = descriptor
            try:
                descriptor = os.open(
                    part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above
                )
            finally:
                os.close(above)
        self._last = (path, descriptor)
        return descriptor

    def close(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None


@contextmanager
def _open_root(root: Path) -> Iterator[_FolderDescriptors]:
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    folders = _FolderDescriptors(descriptor)
    try:
        yield folders
    finally:
        folders.close()
        os.close(descriptor)


def _copy_entry(
    root: _FolderDescriptors, path: bytes, target: bytes, bytes_max: int
) -> bool | bytes | SkipReason | None:
    """Copy a path: True if copied, False for a folder, a link's target, or None if absent."""
    parent, _, name = path.rpartition(b"/")
    try:
        folder = root.folder(parent)
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISDIR(mode):
            return False
        if stat.S_ISLNK(mode):
            # Hosts reject a push with such a link: git would read its settings through it.
            return (
                SkipReason.NAME
                if name.lower() == b".gitmodules"
                else os.readlink(name, dir_fd=folder)
            )
        if not stat.S_ISREG(mode):
            return SkipReason.UNREADABLE
        # If it has become a pipe meanwhile, a blocking open would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        source = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        return None if error.errno in _GONE else SkipReason.UNREADABLE
    try:
        return _copy_file(source, target + b"/" + path, bytes_max)
    finally:
        os.close(source)


def _copy_file(source: int, target: bytes, bytes_max: int) -> bool | SkipReason:
    status = os.fstat(source)
    if not stat.S_ISREG(status.st_mode):
        return SkipReason.UNREADABLE
    if status.st_size > bytes_max:
        return SkipReason.TOO_LARGE
    _make_parents(target)
    mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        # What is appended meanwhile is cut at the limit.
        left = bytes_max
        while left > 0 and (chunk := os.read(source, min(_CHUNK_BYTES, left))):
            left -= len(chunk)
            while chunk:
                chunk = chunk[os.write(copy, chunk) :]
    finally:
        os.close(copy)
    return True


def _make_parents(target: bytes) -> None:
    # Names need not be valid text, as pathlib requires.
    os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120


def _make_link(target: bytes, path: bytes, leads_to: bytes) -> bool:
    link = target + b"/" + path
    with suppress(FileExistsError, NotADirectoryError):
        _make_parents(link)
        os.symlink(leads_to, link)  # noqa: PTH211 - names need not be text
        return True
    return False
