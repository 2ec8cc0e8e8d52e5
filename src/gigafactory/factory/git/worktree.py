"""A worktree a job: its files in one folder, its git folder in another, shared with nobody.

The agent has a git folder of its own, which borrows the mirror's objects and has none of its
settings, branches or stashes: agents of one repo cannot get into each other's way, and nothing
that an agent does with git is ever read by the factory's.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gigafactory.domain.errors import Refused
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git.diff import Diff, changes
from gigafactory.factory.git.mirror import Mirror, core_config, is_commit, lay_out
from gigafactory.factory.git.safe_copy import FILE_BYTES_MAX
from gigafactory.factory.git.snapshot import Snapshot, Snapshots

_REFS_MAX = 2000


class WorktreeTaken(Refused):
    """There is something at this path, or somebody is at work in it."""

    code = "worktree_taken"


class WorktreeBusy(WorktreeTaken):
    """Somebody is in it at this moment: a run, or housekeeping, which is soon done."""


class Record(msgspec.Struct, frozen=True):
    """What is kept of a worktree, beside its files."""

    path: str
    commit: str


class Worktree:
    """The files of one job, from `add` or `open` to `close` or `remove`; nobody else has them."""

    def __init__(
        self, mirror: Mirror, record: Record, folder: Path, lock: FileLock, file_bytes_max: int
    ) -> None:
        """Stand for a worktree whose lock is held; made by `add` and `open`."""
        self.mirror = mirror
        self.path = Path(record.path)
        self.commit = record.commit
        self.git_dir = folder / "git"
        self.index = folder / "index"
        self._folder = folder
        self._lock = lock
        self._snapshots = Snapshots(mirror, self.path, folder, file_bytes_max=file_bytes_max)

    @classmethod
    async def add(
        cls, mirror: Mirror, path: Path, commit: str, *, file_bytes_max: int = FILE_BYTES_MAX
    ) -> "Worktree":
        """Make a worktree of a commit, with HEAD detached there.

        Raises WorktreeTaken when the path is in use, or GitFailed; then nothing is left behind.
        """
        assert is_commit(commit), "a worktree stands on a commit, not on a name"
        assert path.is_absolute(), "a worktree has one name, wherever we are"
        folder = _folder_of(mirror, path)
        with contextlib.ExitStack() as undo:
            lock = _taken(folder, path)
            undo.callback(lock.release)
            _claim(path)
            undo.callback(_clear, path)
            _clear(folder)
            undo.callback(_clear, folder)
            record = Record(str(path), commit)
            worktree = cls(mirror, record, folder, lock, file_bytes_max)
            await worktree._furnish(record)
            undo.pop_all()
        return worktree

    @classmethod
    def open(
        cls, mirror: Mirror, path: Path, *, file_bytes_max: int = FILE_BYTES_MAX
    ) -> "Worktree | None":
        """The worktree that was left here by a process that has ended; None when there is none.

        Raises WorktreeTaken when somebody is at work in it.
        """
        folder = _folder_of(mirror, path)
        record = _record(folder)
        if record is None:
            return None
        lock = _taken(folder, path)
        return cls(mirror, record, folder, lock, file_bytes_max)

    async def snapshot(
        self,
        parent: str,
        *,
        message: str = "Work in progress",
        trailers: Mapping[str, str] | None = None,
    ) -> Snapshot:
        """Commit all that is here onto `parent`, whatever the agent has done with git.

        Links stay links, ignored files, other repos inside and too large files are left out.
        Raises GitFailed.
        """
        return await self._snapshots.take(parent, message, trailers or {})

    async def changes(self, base: str) -> Diff:
        """What is here now and not in `base`.

        Raises GitFailed.
        """
        snapshot = await self.snapshot(base)
        if snapshot.commit is None:
            return Diff(())
        return await changes(self.mirror, base, snapshot.commit)

    async def remove(self) -> None:
        """Remove the files, the agent's git folder, and the claim on the path."""
        await asyncio.to_thread(_clear, self.path)
        await asyncio.to_thread(_clear, self._folder)
        _lock_of(self._folder).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave the worktree as it is, for somebody who goes on with it."""
        self._lock.release()

    async def _furnish(self, record: Record) -> None:
        self._folder.mkdir(parents=True, mode=0o700)
        (self._folder / "record.json").write_bytes(msgspec.json.encode(record))
        await self._snapshots.check_out(record.commit)
        refs = await self.mirror.run(
            "for-each-ref",
            f"--count={_REFS_MAX}",
            "--format=%(objectname) %(refname)",
            "refs/remotes/origin/",
            "refs/tags/",
        )
        lay_out(self.git_dir, self._agents_config())
        objects = self.mirror.folder / "objects"
        (self.git_dir / "objects/info/alternates").write_text(f"{objects}\n")
        (self.git_dir / "packed-refs").write_bytes(_without_jobs(refs.stdout))
        (self.git_dir / "info").mkdir()
        (self.git_dir / "info/exclude").write_text("/.aq/pr.md\n")
        (self.git_dir / "HEAD").write_text(f"{record.commit}\n")
        shutil.copyfile(self._folder / "index", self.git_dir / "index")
        (self.path / ".git").write_text(f"gitdir: {self.git_dir}\n")

    def _agents_config(self) -> str:
        identity = self.mirror.git.identity
        return (
            core_config(bare=False)
            + "\thooksPath = /dev/null\n"
            + "[gc]\n\tauto = 0\n"
            + f"[user]\n\tname = {_quoted(identity.name)}\n\temail = {_quoted(identity.email)}\n"
            + f'[remote "origin"]\n\turl = {_quoted(self.mirror.address.url)}\n'
            + "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        )


class Adopted(Worktree):
    """A person's own checkout while a job works in it: its files and its git are theirs."""

    @classmethod
    def take(cls, mirror: Mirror, path: Path, commit: str) -> "Adopted":
        """Stand for a checkout that is on this commit, as it is.

        Raises WorktreeTaken when a run is at work in it.
        """
        folder = _folder_of(mirror, path)
        lock = _taken(folder, path)
        _clear(folder)
        folder.mkdir(parents=True, mode=0o700)
        return cls(mirror, Record(str(path), commit), folder, lock, FILE_BYTES_MAX)

    async def remove(self) -> None:
        """Remove what is ours: nothing of the checkout."""
        await asyncio.to_thread(_clear, self._folder)
        _lock_of(self._folder).unlink(missing_ok=True)
        self.close()


def is_known(mirror: Mirror, path: Path) -> bool:
    """Whether this repo has a worktree at this path."""
    return _record(_folder_of(mirror, path)) is not None


def is_borrowed(mirror: Mirror) -> bool:
    """Whether there is a worktree of this repo, however old: it needs the mirror's objects."""
    return bool(_folders(mirror))


def left_behind(mirror: Mirror) -> list[Path]:
    """The worktrees of this repo in which nobody is at work."""
    found = []
    for folder in _folders(mirror):
        record = _record(folder)
        lock = FileLock.try_acquire(_lock_of(folder)) if record is not None else None
        if record is not None and lock is not None:
            found.append(Path(record.path))
            lock.release()
    return found


def prune(mirror: Mirror) -> list[Path]:
    """Forget the worktrees whose files are gone and in which nobody is at work; says which."""
    pruned = []
    for folder in _folders(mirror):
        record = _record(folder)
        if record is not None and os.path.lexists(record.path):
            continue
        lock = FileLock.try_acquire(_lock_of(folder))
        if lock is None:
            continue
        _clear(folder)
        _lock_of(folder).unlink(missing_ok=True)
        lock.release()
        pruned.append(Path(record.path) if record is not None else folder)
    return pruned


def _folders(mirror: Mirror) -> list[Path]:
    if not mirror.worktrees.is_dir():
        return []
    return sorted(folder for folder in mirror.worktrees.iterdir() if folder.is_dir())


def _folder_of(mirror: Mirror, path: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return mirror.worktrees / digest


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")


def _record(folder: Path) -> Record | None:
    try:
        return msgspec.json.decode((folder / "record.json").read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def _taken(folder: Path, path: Path) -> FileLock:
    lock = FileLock.try_acquire(_lock_of(folder))
    if lock is None:
        raise WorktreeBusy(f"{path} belongs to a run that is at work; nothing was changed there")
    return lock


def _claim(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        # Whatever is there may be work that nobody has saved.
        if path.is_symlink() or not path.is_dir() or any(path.iterdir()):
            raise WorktreeTaken(
                f"there is something at {path}: open it or remove it first"
            ) from None


def _clear(path: Path) -> None:
    """Remove a folder with all that is in it, also where an agent took our rights away."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        try:
            shutil.rmtree(path)
        except PermissionError:
            _open_up(path)
            shutil.rmtree(path)


def _open_up(path: Path) -> None:
    path.chmod(0o700)
    for above, folders, _ in os.walk(path):
        for folder in (Path(above, name) for name in folders):
            if not folder.is_symlink():
                folder.chmod(0o700)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _without_jobs(refs: bytes) -> bytes:
    lines = refs.splitlines(keepends=True)
    return b"".join(line for line in lines if b" refs/remotes/origin/aq/" not in line)
