"""One worktree per job: its files in one folder, its git folder in another, not shared.

The agent has its own git folder, which borrows the mirror's objects but has none of its settings,
branches or stashes: agents of one repo cannot interfere with each other, and the factory's git
never reads anything that an agent does with git.
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
from gigafactory.factory.git.diff import Diff, compare
from gigafactory.factory.git.local_repo import files_lock
from gigafactory.factory.git.mirror import Mirror, core_config, init_repo, is_commit
from gigafactory.factory.git.safe_copy import FILE_BYTES_MAX
from gigafactory.factory.git.snapshot import Snapshots, WorktreeSnapshot

_REFS_MAX = 2000


class WorktreeTaken(Refused):
    """The path is in use: there are files, or a run is working in it."""

    code = "worktree_taken"


class WorktreeBusy(WorktreeTaken):
    """A run, or for a moment gc, is using it now."""


class WorktreeRecord(msgspec.Struct, frozen=True):
    """The stored data of a worktree."""

    path: str
    commit: str


class Worktree:
    """The locked files of one job, from `add` or `open` to `close` or `remove`."""

    def __init__(
        self,
        mirror: Mirror,
        record: WorktreeRecord,
        folder: Path,
        lock: FileLock,
        file_bytes_max: int,
    ) -> None:
        """Use a worktree whose lock is held; called by `add` and `open`."""
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
        """Create a worktree of a commit, with a detached HEAD.

        Raises WorktreeTaken if the path is in use, or GitFailed; then nothing is left behind.
        """
        assert is_commit(commit), "a worktree needs a commit id, not a name"
        assert path.is_absolute(), "the path of a worktree is absolute"
        folder = _folder_of(mirror, path)
        with contextlib.ExitStack() as undo:
            lock = _acquire_lock(folder, path)
            undo.callback(lock.release)
            _claim(path)
            undo.callback(_clear, path)
            _clear(folder)
            undo.callback(_clear, folder)
            record = WorktreeRecord(str(path), commit)
            worktree = cls(mirror, record, folder, lock, file_bytes_max)
            await worktree._fill(record)
            undo.pop_all()
        return worktree

    @classmethod
    def open(
        cls, mirror: Mirror, path: Path, *, file_bytes_max: int = FILE_BYTES_MAX
    ) -> "Worktree | None":
        """Return the worktree that an ended process left here; None if there is none.

        Raises WorktreeTaken if a run is working in it.
        """
        folder = _folder_of(mirror, path)
        record = _record(folder)
        if record is None:
            return None
        lock = _acquire_lock(folder, path)
        return cls(mirror, record, folder, lock, file_bytes_max)

    async def snapshot(
        self,
        parent: str,
        *,
        message: str = "Work in progress",
        trailers: Mapping[str, str] | None = None,
    ) -> WorktreeSnapshot:
        """Commit everything that is here onto `parent`, whatever the agent did with git.

        Links stay links; ignored files, nested repos and files that are too large are left out.
        Raises GitFailed.
        """
        return await self._snapshots.take(parent, message, trailers or {})

    async def changes(self, base: str) -> Diff:
        """Return the difference to `base`.

        Raises GitFailed.
        """
        snapshot = await self.snapshot(base)
        if snapshot.commit is None:
            return Diff(())
        return await compare(self.mirror, base, snapshot.commit)

    async def remove(self) -> None:
        """Remove the files, the agent's git folder, and the claim on the path."""
        await asyncio.to_thread(_clear, self.path)
        await asyncio.to_thread(_clear, self._folder)
        _lock_of(self._folder).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave the worktree as it is, for a later run."""
        self._lock.release()

    async def _fill(self, record: WorktreeRecord) -> None:
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
        init_repo(self.git_dir, self._agents_config())
        objects = self.mirror.folder / "objects"
        (self.git_dir / "objects/info/alternates").write_text(f"{objects}\n")
        (self.git_dir / "packed-refs").write_bytes(_without_job_branches(refs.stdout))
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


class AdoptedCheckout(Worktree):
    """A person's own checkout while a job works in it: files and git folder stay theirs."""

    _files: FileLock

    @classmethod
    def adopt(cls, mirror: Mirror, path: Path, commit: str) -> "AdoptedCheckout":
        """Use a checkout that is at this commit, as it is.

        Raises WorktreeTaken if a run is working in it, or a ship is changing its files.
        """
        folder = _folder_of(mirror, path)
        with contextlib.ExitStack() as undo:
            lock = _acquire_lock(folder, path)
            undo.callback(lock.release)
            files = FileLock.try_acquire(files_lock(mirror.local_repo()))
            if files is None:
                raise WorktreeBusy(f"{path} is in use; nothing was changed there")
            undo.callback(files.release)
            _clear(folder)
            folder.mkdir(parents=True, mode=0o700)
            record = WorktreeRecord(str(path), commit)
            adopted = cls(mirror, record, folder, lock, FILE_BYTES_MAX)
            adopted._files = files
            undo.pop_all()
        return adopted

    async def remove(self) -> None:
        """Remove only our own data, nothing of the checkout."""
        await asyncio.to_thread(_clear, self._folder)
        _lock_of(self._folder).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        super().close()
        self._files.release()


def has_worktree_at(mirror: Mirror, path: Path) -> bool:
    """Return whether this repo has a worktree at this path."""
    return _record(_folder_of(mirror, path)) is not None


def has_worktrees(mirror: Mirror) -> bool:
    """Return whether this repo has any worktree: it needs the mirror's objects."""
    return bool(_folders(mirror))


def prune_worktrees(mirror: Mirror) -> list[Path]:
    """Forget the worktrees whose files are gone and that no run uses; return their paths."""
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


def _record(folder: Path) -> WorktreeRecord | None:
    try:
        return msgspec.json.decode((folder / "record.json").read_bytes(), type=WorktreeRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _acquire_lock(folder: Path, path: Path) -> FileLock:
    lock = FileLock.try_acquire(_lock_of(folder))
    if lock is None:
        raise WorktreeBusy(f"{path} is in use by a run; nothing was changed there")
    return lock


def _claim(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        # There may be unsaved work.
        if path.is_symlink() or not path.is_dir() or any(path.iterdir()):
            raise WorktreeTaken(f"{path} already exists: open it or remove it first") from None


def _clear(path: Path) -> None:
    """Remove a folder with its content, even where an agent removed our permissions."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        try:
            shutil.rmtree(path)
        except PermissionError:
            _make_accessible(path)
            shutil.rmtree(path)


def _make_accessible(path: Path) -> None:
    path.chmod(0o700)
    for above, folders, _ in os.walk(path):
        for folder in (Path(above, name) for name in folders):
            if not folder.is_symlink():
                folder.chmod(0o700)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _without_job_branches(refs: bytes) -> bytes:
    lines = refs.splitlines(keepends=True)
    return b"".join(line for line in lines if b" refs/remotes/origin/aq/" not in line)
