"""Work in place (`cwd`): in a person's own folder, if the operator allows it."""

import asyncio
import contextlib
import os
from pathlib import Path

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.factory.core.allowed_folders import AllowedFolders, is_repo
from gigafactory.factory.core.written_folders import WrittenFolders
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import update_index
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.git.workspace import PlainFolder, RepoWorkspace, Workspace
from gigafactory.factory.git.worktree import AdoptedCheckout, WorktreeBusy
from gigafactory.factory.process.spawn import CannotStart
from gigafactory.factory.run.active_run import ActiveRun

ENTRIES_MAX = 1_000_000
"""Upper limit of entries of a folder that are examined."""
_NAMED_MAX = 5


class InPlaceFolder(PlainFolder):
    """A person's folder outside of any repo; it is neither emptied nor removed."""

    def __init__(self, path: Path, written: WrittenFolders) -> None:
        """Use a folder that `written` has as occupied."""
        self._path = path
        self._written = written

    @property
    def writable(self) -> tuple[Path, ...]:
        return (_require_same_path(self._path),)

    async def quarantine(self, folder: Path) -> None:
        """Do nothing: the work stays in the folder."""

    async def remove(self) -> None:
        """Leave the folder: it belongs to a person."""
        self.close()

    def close(self) -> None:
        self._written.leave(self._path)


class InPlaceCheckout(RepoWorkspace):
    """A folder in a person's checkout: work goes to branches of that repo; HEAD stays."""

    folder: Path
    written: WrittenFolders

    @property
    def path(self) -> Path:
        return self.folder

    @property
    def writable(self) -> tuple[Path, ...]:
        return (_require_same_path(self.worktree.path),)

    @property
    def readable(self) -> tuple[Path, ...]:
        return (self.worktree.path / ".git",)

    async def remove(self) -> None:
        await super().remove()
        self.written.leave(self.worktree.path)

    def close(self) -> None:
        super().close()
        self.written.leave(self.worktree.path)


def _require_same_path(folder: Path) -> Path:
    """Return a folder that was judged by its real path, if that is still its real path."""
    if folder.resolve() != folder:
        raise CannotStart(f"cannot start anything in {folder}: a link was put in its place")
    return folder


def resolve_cwd(run: ActiveRun, cwd: str) -> Path:
    """Return the folder that `cwd` names, with links resolved, if a job may work in it.

    Raises Forbidden, NotFound.
    """
    folder = run.equipment.folders.resolve_in_place(cwd)
    if not folder.is_dir():
        raise NotFound("folder", cwd, "this folder does not exist on this machine")
    return folder


def find_checkout(folder: Path, folders: AllowedFolders) -> Path | None:
    """Return the checkout that contains a folder, unless a job may have made it; else None."""
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            with contextlib.suppress(Forbidden):
                return folders.resolve_repo(str(each))
    return None


def repo_address(run: ActiveRun) -> RemoteAddress | None:
    """Return the repo that a job works on, by name or by its `cwd`; None without a repo.

    Raises what `resolve_cwd`, `Repos.address` and `Forges.require_product` raise.
    """
    repo = _repo(run)
    if repo is None:
        return None
    address = run.equipment.repos.address(repo)
    run.equipment.forges.require_product(address, run.assignment.product)
    return address


def _repo(run: ActiveRun) -> str | None:
    manifest = run.assignment.manifest
    if manifest.cwd is None:
        return manifest.repo
    checkout = find_checkout(resolve_cwd(run, manifest.cwd), run.equipment.folders)
    return None if checkout is None else str(checkout)


async def open_in_place(run: ActiveRun, cwd: str) -> Workspace:
    """Return the workspace of a job that works in place.

    Raises Forbidden, NotFound, WorktreeTaken, GitFailed.
    """
    folder = resolve_cwd(run, cwd)
    address = repo_address(run)
    written = run.equipment.folders.written
    assert written is not None, "a factory that allows folders remembers which were written"
    place = folder if address is None else Path(address.url)
    if not written.occupy(place):
        raise WorktreeBusy(f"{place} is in use by a run; nothing was changed there")
    with contextlib.ExitStack() as undo:
        undo.callback(written.leave, place)
        workspace: Workspace
        if address is None:
            workspace = await _open_plain_folder(run, folder, written)
        else:
            workspace = await _open_checkout(run, address, folder, written)
        undo.pop_all()
    return workspace


async def _open_plain_folder(
    run: ActiveRun, folder: Path, written: WrittenFolders
) -> InPlaceFolder:
    """Return a folder without a repo.

    Raises Forbidden if checkouts are in it: the job could change what git runs in them.
    """
    if inside := await asyncio.to_thread(find_repos_below, folder):
        listed = ", ".join(inside)
        raise Forbidden(
            f"{folder} contains checkouts ({listed}): name one of them, so that the job cannot"
            " change the git folders of all"
        )
    written.add(folder)
    run.log_line(f"works in {folder}, which is not in a repo")
    return InPlaceFolder(folder, written)


def find_repos_below(folder: Path, *, entries_max: int = ENTRIES_MAX) -> list[str]:
    """Return some of the checkouts and bare repos below a folder, at any depth.

    Raises Forbidden for a folder that is too large to tell.
    """
    repos: list[str] = []
    waiting, left = [folder], entries_max
    while waiting and len(repos) < _NAMED_MAX:
        here = waiting.pop()
        if here != folder and is_repo(here):
            repos.append(str(here.relative_to(folder)))
            continue
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                left -= 1
                own = here == folder and entry.name == ".git"
                if entry.is_dir(follow_symlinks=False) and not own:
                    waiting.append(Path(entry.path))
                if left < 0:
                    raise Forbidden(
                        f"{folder} has more than {entries_max} entries, too many to see whether"
                        " there are checkouts in it: name a folder in it"
                    )
    return sorted(repos)


async def _open_checkout(
    run: ActiveRun, address: RemoteAddress, folder: Path, written: WrittenFolders
) -> InPlaceCheckout:
    run.equipment.folders.require_no_programs(Path(address.url))
    mirror = await run.equipment.mirrors.open(address)
    branch = run.assignment.manifest.base or await mirror.default_branch()
    base = await mirror.resolve(branch)
    place = InPlaceCheckout(
        AdoptedCheckout.adopt(mirror, Path(address.url), base),
        run.assignment,
        base_branch=branch,
        base=base,
        secrets=run.equipment.secrets,
    )
    place.folder, place.written = folder, written
    run.log_line(f"works in {folder}, on {branch} ({base[:12]})")
    return place


async def update_checkout(mirror: Mirror, base: str, commit: str) -> None:
    """Update the index of a checkout after its branch moved to the content of its files.

    Raises GitFailed.
    """
    repo = mirror.local_repo()
    if repo.branch == f"refs/heads/{base}":
        await update_index(mirror, repo, commit)
