"""Where a run works: a worktree of a repo whose work is saved on its remote, or a plain folder."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git.commits import EPOCH, make_commit, our_trailers, run_trailers
from gigafactory.factory.git.diff import Diff
from gigafactory.factory.git.errors import NotTogether, RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import Move, push, push_together, remote_commit
from gigafactory.factory.git.secret_scan import refuse_secrets
from gigafactory.factory.git.worktree import Worktree, WorktreeBusy


class Workplace(Protocol):
    """A place of work, from the beginning of a run to its end."""

    @property
    def path(self) -> Path:
        """The folder in which the engine works."""
        ...

    @property
    def writable(self) -> tuple[Path, ...]:
        """What the programs of the run may change."""
        ...

    @property
    def readable(self) -> tuple[Path, ...]:
        """What they must be able to read beside it."""
        ...

    @property
    def unsaved(self) -> bool:
        """Whether, as far as is known, something of the work is on this machine only."""
        ...

    async def changes(self) -> Diff | None:
        """What was changed since the base; None where there is no repo."""
        ...

    async def save(self) -> str | None:
        """Keep the work where another machine finds it; its commit, or None without a repo."""
        ...

    async def quarantine(self, folder: Path) -> None:
        """Keep the work on this machine alone, for somebody who wonders."""
        ...

    async def remove(self) -> None:
        """Leave nothing behind here."""
        ...

    def close(self) -> None:
        """Leave it as it is, for a later run that looks after it."""
        ...


class PlainFolder:
    """A folder of its own, for a job without a repo."""

    _lock: FileLock | None = None

    def __init__(self, path: Path) -> None:
        """Make the folder, empty, and hold it.

        Raises WorktreeBusy when somebody has it.
        """
        self._lock = FileLock.try_acquire(folder_lock(path))
        if self._lock is None:
            raise WorktreeBusy(f"{path} belongs to a run that is at work; nothing was changed")
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, mode=0o700)
        self._path = path

    @property
    def path(self) -> Path:
        return self._path

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self._path,)

    @property
    def readable(self) -> tuple[Path, ...]:
        return ()

    @property
    def unsaved(self) -> bool:
        return False

    async def changes(self) -> Diff | None:
        return None

    async def save(self) -> str | None:
        return None

    async def quarantine(self, folder: Path) -> None:
        await asyncio.to_thread(keep_folder, self._path, folder)

    async def remove(self) -> None:
        await asyncio.to_thread(remove_folder, self._path)
        folder_lock(self._path).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()


def folder_lock(path: Path) -> Path:
    """What is held while somebody is at work in a plain folder, or looks at what is left of it."""
    return path.with_name(f".{path.name}.lock")


class RepoWorkplace:
    """A worktree; its work in progress goes to a branch that only this lease writes."""

    def __init__(
        self,
        worktree: Worktree,
        assignment: Assignment,
        *,
        base_branch: str,
        base: str,
        elsewhere: str | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        """`base` is the commit that the work is measured against; no secret is ever pushed.

        What `elsewhere` has is not lost with this machine.
        """
        self.worktree = worktree
        self.base_branch = base_branch
        self.base = base
        self._assignment = assignment
        self._secrets = tuple(secrets)
        self._saved: str | None = None
        self._unanswered: set[str] = set()
        """Commits that were pushed to our branch, and may have arrived there."""
        self._elsewhere = elsewhere
        self._unsaved = False
        self._saving = asyncio.Lock()

    @property
    def path(self) -> Path:
        return self.worktree.path

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self.worktree.path, self.worktree.git_dir)

    @property
    def readable(self) -> tuple[Path, ...]:
        return (self.mirror.folder / "objects",)

    @property
    def mirror(self) -> Mirror:
        """The repo."""
        return self.worktree.mirror

    @property
    def branch(self) -> str:
        """Where the work in progress is kept."""
        return f"aq/wip/{self._assignment.job_id}/{self._assignment.epoch}"

    @property
    def result_branch(self) -> str:
        """Where people find what came of it."""
        return f"aq/job/{self._assignment.job_id}"

    @property
    def unsaved(self) -> bool:
        return self._unsaved

    async def changes(self) -> Diff | None:
        return await self.worktree.changes(self.base)

    async def save(self) -> str | None:
        async with self._saving:
            try:
                return await self._keep()
            except RefMoved as moved:
                if not self._arrived(moved):
                    raise
                return await self._keep()

    async def _keep(self) -> str:
        self._unsaved = True
        parent = self._saved or self.worktree.commit
        taken = await self.worktree.snapshot(parent, trailers=self._trailers())
        commit = taken.commit or parent
        self._unsaved = commit not in {self._saved, self._elsewhere}
        if commit != self._saved:
            await refuse_secrets(self.mirror, self.base, commit, self._secrets)
            self._unanswered.add(commit)
            await push(self.mirror, commit, self.branch, expect=self._saved)
            self._saved_at(commit)
        return commit

    def _saved_at(self, commit: str) -> None:
        self._saved, self._unsaved = commit, False
        self._unanswered.clear()

    def _arrived(self, moved: RefMoved) -> bool:
        """Whether it was ourselves who moved our branch, by a push whose answer was lost."""
        if moved.branch != self.branch or moved.now not in self._unanswered:
            return False
        self._saved = moved.now
        return True

    async def result(self, message: str) -> str | None:
        """One commit on the base with all of the work; None when there is none.

        Raises SecretInWork, or GitFailed.
        """
        taken = await self.worktree.snapshot(self.base, message=message, trailers=self._trailers())
        if taken.commit is not None:
            await refuse_secrets(self.mirror, self.base, taken.commit, self._secrets)
        return taken.commit

    async def standing_result(self) -> tuple[str | None, int]:
        """Where the result's branch is now, and the epoch of the run that moved it there."""
        commit = await remote_commit(self.mirror, self.result_branch)
        if commit is None:
            return None, 0
        if not await self.mirror.has(commit):
            await self.mirror.fetch_branch(self.result_branch)
        told = await self.mirror.run("log", "-1", "--format=%B", "--end-of-options", commit, "--")
        epoch = our_trailers(told.text).get(EPOCH, "0")
        return commit, int(epoch) if epoch.isdecimal() else 0

    async def publish(self, commit: str, *, before: str | None) -> None:
        """Move the result's branch from `before`, unless a successor has sealed ours meanwhile.

        Raises RefMoved, or another GitFailed.
        """
        move = Move(self.result_branch, commit, before)
        async with self._saving:
            if self._saved is None:
                await push_together(self.mirror, move)
                return
            tree = await self.mirror.tree(commit)
            sealed = await make_commit(
                self.mirror, tree, [self._saved], "Delivered", self._trailers()
            )
            self._unanswered.add(sealed)
            try:
                await push_together(self.mirror, move, Move(self.branch, sealed, self._saved))
                self._saved = sealed
            except RefMoved as moved:
                # Whoever tries again does so from where our branch is.
                self._arrived(moved)
                raise
            except NotTogether:
                # What such a remote can do: the branch moves from the expected commit alone.
                await push_together(self.mirror, move)

    async def same_work(self, one: str, other: str) -> bool:
        """Whether two commits hold the same files on the same base."""
        told = [
            (await self.mirror.run("log", "-1", "--format=%T %P", "--end-of-options", each, "--"))
            for each in (one, other)
        ]
        return told[0].text == told[1].text

    async def quarantine(self, folder: Path) -> None:
        await keep_patch(self.worktree, self.base, folder)

    async def remove(self) -> None:
        await self.worktree.remove()

    def close(self) -> None:
        self.worktree.close()

    def _trailers(self) -> dict[str, str]:
        job = self._assignment
        return run_trailers(job=job.job_id, run=job.run_id, engine=job.engine, epoch=job.epoch)


async def keep_patch(worktree: Worktree, base: str, folder: Path) -> None:
    """Write what a worktree has and its base has not into a folder; nothing when that is nothing.

    Raises GitFailed.
    """
    taken = await worktree.snapshot(base)
    if taken.commit is None:
        return
    patch = await worktree.mirror.run(
        "diff", "--binary", "--no-ext-diff", "--no-textconv", base, taken.commit, "--"
    )
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True, mode=0o700)
    await asyncio.to_thread((folder / "work.patch").write_bytes, patch.stdout)


def keep_folder(path: Path, folder: Path) -> None:
    """Copy what is in a plain folder, links as links; nothing when it is empty."""
    if any(path.iterdir()):
        shutil.copytree(path, folder, symlinks=True, dirs_exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a plain folder."""
    shutil.rmtree(path, ignore_errors=True)
