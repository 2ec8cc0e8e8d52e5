"""Where a run works: a worktree whose work is saved to the remote, or a plain folder."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git.commits import EPOCH, make_commit, parse_trailers, run_trailers
from gigafactory.factory.git.diff import Diff
from gigafactory.factory.git.errors import AtomicPushUnsupported, RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import RefUpdate, push, push_atomically, remote_commit
from gigafactory.factory.git.secret_scan import refuse_secrets
from gigafactory.factory.git.worktree import Worktree, WorktreeBusy


class Workspace(Protocol):
    """The working folder of a run, from its start to its end."""

    @property
    def path(self) -> Path:
        """Return the folder in which the engine works."""
        ...

    @property
    def writable(self) -> tuple[Path, ...]:
        """Return the paths that the programs of the run may write."""
        ...

    @property
    def readable(self) -> tuple[Path, ...]:
        """Return the additional paths that they must be able to read."""
        ...

    @property
    def unsaved(self) -> bool:
        """Return whether, as far as is known, some work exists only on this machine."""
        ...

    async def changes(self) -> Diff | None:
        """Return what was changed since the base; None without a repo."""
        ...

    async def save(self) -> str | None:
        """Save the work where other machines find it; return its commit, or None without a repo."""
        ...

    async def quarantine(self, folder: Path) -> None:
        """Keep the work on this machine only, for inspection."""
        ...

    async def remove(self) -> None:
        """Remove everything here."""
        ...

    def close(self) -> None:
        """Leave it as it is, for a later run."""
        ...


class PlainFolder:
    """A separate folder, for a job without a repo."""

    _lock: FileLock | None = None

    def __init__(self, path: Path) -> None:
        """Create the folder, empty, and lock it.

        Raises WorktreeBusy if it is in use.
        """
        self._lock = FileLock.try_acquire(folder_lock(path))
        if self._lock is None:
            raise WorktreeBusy(f"{path} is in use by a run; nothing was changed")
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
        await asyncio.to_thread(copy_folder, self._path, folder)

    async def remove(self) -> None:
        await asyncio.to_thread(remove_folder, self._path)
        folder_lock(self._path).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()


def folder_lock(path: Path) -> Path:
    """Return the lock that is held while a run works in a plain folder, or gc looks at it."""
    return path.with_name(f".{path.name}.lock")


class RepoWorkspace:
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
        """Compare the work with the commit `base`; never push a secret.

        Work at the commit `elsewhere` is not lost with this machine.
        """
        self.worktree = worktree
        self.base_branch = base_branch
        self.base = base
        self._assignment = assignment
        self._secrets = tuple(secrets)
        self._saved: str | None = None
        self._unanswered: set[str] = set()
        """Commits that were pushed to our branch and may have arrived there."""
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
        """Return the mirror of the repo."""
        return self.worktree.mirror

    @property
    def branch(self) -> str:
        """Return the branch for work in progress."""
        return f"aq/wip/{self._assignment.job_id}/{self._assignment.epoch}"

    @property
    def result_branch(self) -> str:
        """Return the branch on which people find the result."""
        return f"aq/job/{self._assignment.job_id}"

    @property
    def unsaved(self) -> bool:
        return self._unsaved

    async def changes(self) -> Diff | None:
        return await self.worktree.changes(self.base)

    async def save(self) -> str | None:
        async with self._saving:
            try:
                return await self._push_checkpoint()
            except RefMoved as moved:
                if not self._is_own_push(moved):
                    raise
                return await self._push_checkpoint()

    async def _push_checkpoint(self) -> str:
        self._unsaved = True
        parent = self._saved or self.worktree.commit
        taken = await self.worktree.snapshot(parent, trailers=self._trailers())
        commit = taken.commit or parent
        self._unsaved = commit not in {self._saved, self._elsewhere}
        if commit != self._saved:
            await refuse_secrets(self.mirror, self.base, commit, self._secrets)
            self._unanswered.add(commit)
            await push(self.mirror, commit, self.branch, expect=self._saved)
            self._mark_saved(commit)
        return commit

    def _mark_saved(self, commit: str) -> None:
        self._saved, self._unsaved = commit, False
        self._unanswered.clear()

    def _is_own_push(self, moved: RefMoved) -> bool:
        """Return whether we moved our branch ourselves, by a push whose response was lost."""
        if moved.branch != self.branch or moved.now not in self._unanswered:
            return False
        self._saved = moved.now
        return True

    async def result(self, message: str) -> str | None:
        """Create one commit on the base with all of the work; return None if there is none.

        Raises SecretInWork, or GitFailed.
        """
        taken = await self.worktree.snapshot(self.base, message=message, trailers=self._trailers())
        if taken.commit is not None:
            await refuse_secrets(self.mirror, self.base, taken.commit, self._secrets)
        return taken.commit

    async def current_result(self) -> tuple[str | None, int]:
        """Return the commit of the result branch, and the epoch of the run that pushed it."""
        commit = await remote_commit(self.mirror, self.result_branch)
        if commit is None:
            return None, 0
        if not await self.mirror.has_commit(commit):
            await self.mirror.fetch_branch(self.result_branch)
        log = await self.mirror.run("log", "-1", "--format=%B", "--end-of-options", commit, "--")
        epoch = parse_trailers(log.text).get(EPOCH, "0")
        return commit, int(epoch) if epoch.isdecimal() else 0

    async def publish(self, commit: str, *, before: str | None) -> None:
        """Update the result branch from `before`, unless a successor has sealed our branch.

        Raises RefMoved, or another GitFailed.
        """
        move = RefUpdate(self.result_branch, commit, before)
        async with self._saving:
            if self._saved is None:
                await push_atomically(self.mirror, move)
                return
            tree = await self.mirror.tree(commit)
            sealing_commit = await make_commit(
                self.mirror, tree, [self._saved], "Delivered", self._trailers()
            )
            self._unanswered.add(sealing_commit)
            try:
                await push_atomically(
                    self.mirror, move, RefUpdate(self.branch, sealing_commit, self._saved)
                )
                self._saved = sealing_commit
            except RefMoved as moved:
                # Remember where our branch is, for the next attempt.
                self._is_own_push(moved)
                raise
            except AtomicPushUnsupported:
                # Without atomic pushes the branch still only moves from the expected commit.
                await push_atomically(self.mirror, move)

    async def is_same_work(self, one: str, other: str) -> bool:
        """Return whether two commits have the same files on the same base."""
        trees = [
            (await self.mirror.run("log", "-1", "--format=%T %P", "--end-of-options", each, "--"))
            for each in (one, other)
        ]
        return trees[0].text == trees[1].text

    async def quarantine(self, folder: Path) -> None:
        await write_patch(self.worktree, self.base, folder)

    async def remove(self) -> None:
        await self.worktree.remove()

    def close(self) -> None:
        self.worktree.close()

    def _trailers(self) -> dict[str, str]:
        job = self._assignment
        return run_trailers(job=job.job_id, run=job.run_id, engine=job.engine, epoch=job.epoch)


async def write_patch(worktree: Worktree, base: str, folder: Path) -> None:
    """Write what a worktree adds to its base into a folder; write nothing if it is unchanged.

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


def copy_folder(path: Path, folder: Path) -> None:
    """Copy a plain folder, links as links; copy nothing if it is empty."""
    if any(path.iterdir()):
        shutil.copytree(path, folder, symlinks=True, dirs_exist_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a plain folder."""
    shutil.rmtree(path, ignore_errors=True)
