"""Commits everything in a worktree, without touching the agent's index, HEAD or settings."""

import asyncio
import errno
import shutil
import string
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gigafactory.factory.git.commits import make_commit
from gigafactory.factory.git.errors import DiskFull, GitFailed
from gigafactory.factory.git.git import GitLocation
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.safe_copy import (
    FILE_BYTES_MAX,
    NEVER_COMMITTED,
    RUN_FOLDER,
    CopiedPaths,
    SkippedPath,
    SkipReason,
    copy_paths,
    is_git_internal,
    printable_path,
)

SNAPSHOT_TIMEOUT_S = 600.0
_PATHS_BYTES_MAX = 256 * 1024 * 1024
_GITLINK = b"160000 "
# Files that agents keep for themselves, wherever they are told to put them.
_NOT_WORK = ("--exclude=.aider*",)
_PLAIN = frozenset(f"{string.ascii_letters}{string.digits}/._-".encode())
# The names were checked already: git must not reject similar ones.
_ANY_NAME = (("core.protectHFS", "false"), ("core.protectNTFS", "false"))


class WorktreeSnapshot(msgspec.Struct, frozen=True, rename="camel"):
    """A commit of everything in a worktree, except for what was left out."""

    commit: str | None
    """None if the parent has everything already."""
    left_out: tuple[SkippedPath, ...] = ()


class _Listing(msgspec.Struct, frozen=True):
    tracked: tuple[bytes, ...]
    new: tuple[bytes, ...]
    left_out: tuple[SkippedPath, ...]


class Snapshots:
    """Takes the snapshots of one worktree, each incrementally from the one before."""

    def __init__(
        self, mirror: Mirror, path: Path, folder: Path, *, file_bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        """Keep our own index, and copies, in `folder`, where no agent can write."""
        self._mirror = mirror
        self._path = path
        self._folder = folder
        self._index = folder / "index"
        self._file_bytes_max = file_bytes_max
        self._tree: str | None = None
        self._trees: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()

    async def take(
        self, parent: str, message: str, trailers: Mapping[str, str]
    ) -> WorktreeSnapshot:
        """Commit everything that is there now onto `parent`.

        Raises GitFailed.
        """
        async with self._one_at_a_time:
            left_out = await self._gather(parent)
            if self._tree is None:
                self._tree = (await self._run("write-tree")).decode().strip()
            if parent not in self._trees:
                self._trees[parent] = await self._mirror.tree(parent)
            if self._trees[parent] == self._tree:
                return WorktreeSnapshot(None, left_out)
            commit = await make_commit(self._mirror, self._tree, [parent], message, trailers)
            self._trees[commit] = self._tree
            return WorktreeSnapshot(commit, left_out)

    async def check_out(self, commit: str) -> None:
        """Write the files of a commit into the worktree, which is empty."""
        await self._run("read-tree", "-m", "-u", "--end-of-options", commit, inside=self._path)

    async def _gather(self, parent: str) -> tuple[SkippedPath, ...]:
        """Update the index to the content of the worktree."""
        (self._folder / "index.lock").unlink(missing_ok=True)
        listing = await self._list_changes(parent)
        paths = (*listing.tracked, *listing.new)
        if not paths:
            return listing.left_out
        staging = Path(tempfile.mkdtemp(prefix="staging-", dir=self._folder))
        try:
            staged = await self._copy_to_staging(paths, staging)
            submodules = await self._submodules(set(listing.tracked).intersection(staged.folders))
            await self._add_to_index(staged, staging, set(listing.tracked) - submodules)
        finally:
            await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
        ours = (
            SkippedPath(printable_path(path), SkipReason.SUBMODULE) for path in sorted(submodules)
        )
        return (*listing.left_out, *staged.left_out, *ours)

    async def _copy_to_staging(self, paths: Sequence[bytes], staging: Path) -> CopiedPaths:
        try:
            return await asyncio.to_thread(
                copy_paths, self._path, paths, staging, file_bytes_max=self._file_bytes_max
            )
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise DiskFull(("update-index",), None, str(error)) from error
            raise

    async def _list_changes(self, parent: str) -> _Listing:
        """Return the paths that differ from the index, or are not in it."""
        if not self._index.exists():
            await self._rebuild(parent)
        command = ("ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard", *_NOT_WORK)
        try:
            listed = await self._run(*command, inside=self._path)
        except GitFailed as error:
            if type(error) is not GitFailed or "index" not in error.stderr:
                raise
            await self._rebuild(parent)
            listed = await self._run(*command, inside=self._path)
        return _read(listed)

    async def _rebuild(self, parent: str) -> None:
        self._tree = None
        self._index.unlink(missing_ok=True)
        await self._run("read-tree", "--end-of-options", parent)

    async def _submodules(self, paths: set[bytes]) -> set[bytes]:
        """Return the paths that are submodules in the index."""
        if not paths:
            return set()
        listed = await self._run("ls-files", "-z", "-s")
        entries = [entry.partition(b"\t") for entry in listed.split(b"\0")]
        return {path for kind, _, path in entries if kind.startswith(_GITLINK) and path in paths}

    async def _add_to_index(self, staged: CopiedPaths, staging: Path, tracked: set[bytes]) -> None:
        present = (*staged.files, *(path for path, _ in staged.links))
        removed = _paths_to_remove({*staged.gone, *staged.folders} & tracked, set(present))
        if not present and not removed:
            return
        self._tree = None
        try:
            await self._run(
                *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
                inside=staging,
                stdin=b"".join(path + b"\0" for path in (*removed, *present)),
            )
        except GitFailed as error:
            if type(error) is not GitFailed:
                raise
            # An attribute of the repo, such as a wrong encoding, makes git fail.
            await self._add_unfiltered(staged, staging, removed)

    async def _add_unfiltered(
        self, staged: CopiedPaths, staging: Path, removed: Sequence[bytes]
    ) -> None:
        (self._folder / "index.lock").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="staging-", dir=self._folder) as links:
            sources = [staging / _text(path) for path in staged.files]
            modes = [
                b"100755" if source.stat().st_mode & 0o100 else b"100644" for source in sources
            ]
            for number, (_, leads_to) in enumerate(staged.links):
                sources.append(Path(links, str(number)))
                sources[-1].write_bytes(leads_to)
                modes.append(b"120000")
            quoted = b"".join(_quoted(bytes(source)) + b"\n" for source in sources)
            hashed = await self._run(
                *("hash-object", "-w", "--no-filters", "--stdin-paths"), stdin=quoted
            )
        paths = (*staged.files, *(path for path, _ in staged.links))
        lines = [b"0 " + b"0" * 40 + b"\t" + path for path in removed]
        lines += [
            mode + b" " + blob + b"\t" + path
            for mode, blob, path in zip(modes, hashed.split(), paths, strict=True)
        ]
        await self._run(
            *("update-index", "-z", "--replace", "--index-info"),
            stdin=b"".join(line + b"\0" for line in lines),
        )

    async def _run(self, *args: str, inside: Path | None = None, stdin: bytes = b"") -> bytes:
        output = await self._mirror.run(
            *args,
            place=GitLocation(self._mirror.folder, inside, self._index),
            stdin=stdin,
            timeout_s=SNAPSHOT_TIMEOUT_S,
            output_bytes_max=_PATHS_BYTES_MAX,
            settings=() if args[0] == "read-tree" else _ANY_NAME,
        )
        return output.stdout


def _read(listed: bytes) -> _Listing:
    tracked: set[bytes] = set()
    new: list[bytes] = []
    left_out: list[SkippedPath] = []
    for entry in listed.split(b"\0"):
        tag, path = entry[:2], entry[2:]
        if not path or path == NEVER_COMMITTED:
            continue
        if tag != b"? ":
            tracked.add(path)
        elif path.endswith(b"/"):
            left_out.append(SkippedPath(printable_path(path), SkipReason.NESTED_REPO))
        elif is_git_internal(path):
            left_out.append(SkippedPath(printable_path(path), SkipReason.NAME))
        elif not path.startswith(RUN_FOLDER + b"/"):
            new.append(path)
    return _Listing(tuple(sorted(tracked)), tuple(new), tuple(left_out))


def _paths_to_remove(removed: set[bytes], present: set[bytes]) -> list[bytes]:
    """Return the paths to remove by name, without those that a file or folder replaces."""
    above = {part for path in present for part in _parents(path)}
    return sorted(path for path in removed - above if present.isdisjoint(_parents(path)))


def _parents(path: bytes) -> list[bytes]:
    return [path[:place] for place, byte in enumerate(path) if byte == ord("/")]


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _quoted(path: bytes) -> bytes:
    escaped = (bytes([byte]) if byte in _PLAIN else b"\\%03o" % byte for byte in path)
    return b'"' + b"".join(escaped) + b'"'
