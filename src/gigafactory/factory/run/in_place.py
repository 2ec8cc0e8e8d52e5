"""Work in place (`cwd`): in a person's own folder, below the allowed roots."""

from collections.abc import Sequence
from pathlib import Path

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.factory.git.git import GitLocation
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.git.workspace import PlainFolder, RepoWorkspace, Workspace
from gigafactory.factory.git.worktree import AdoptedCheckout
from gigafactory.factory.run.active_run import ActiveRun


class InPlaceFolder(PlainFolder):
    """A person's folder outside of any repo; it is neither emptied nor removed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def quarantine(self, folder: Path) -> None:
        """Do nothing: the work stays in the folder."""

    async def remove(self) -> None:
        """Do nothing: the folder belongs to a person."""


class InPlaceCheckout(RepoWorkspace):
    """A folder in a person's checkout: work goes to branches of that repo; HEAD stays."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder

    @property
    def writable(self) -> tuple[Path, ...]:
        return (self.worktree.path,)

    @property
    def readable(self) -> tuple[Path, ...]:
        return (self.worktree.path / ".git",)


def resolve_cwd(run: ActiveRun, cwd: str) -> Path:
    """Return the folder that `cwd` names, with links resolved, if it is below a root.

    Raises Forbidden, NotFound.
    """
    allowed = [root.resolve() for root in run.equipment.roots]
    folder = Path(cwd).resolve()
    if folder.is_relative_to(run.equipment.data_dir.root.resolve()):
        raise Forbidden(f"{cwd} is inside the factory's data folder: use another folder")
    if not any(folder.is_relative_to(root) for root in allowed):
        allowed_list = ", ".join(map(str, allowed)) or "none are named"
        raise Forbidden(
            f"{cwd} is not below a folder in which jobs may work in place;"
            f" those are the setting factory.roots ({allowed_list})"
        )
    if not folder.is_dir():
        raise NotFound("folder", cwd, "this folder does not exist on this machine")
    return folder


def find_checkout(folder: Path, roots: Sequence[Path]) -> Path | None:
    """Return the checkout that contains a folder, if it is below a root; else None."""
    allowed = [root.resolve() for root in roots]
    above = (each for each in (folder, *folder.parents) if (each / ".git").exists())
    found = next(above, None)
    if found is None or not any(found.is_relative_to(root) for root in allowed):
        return None
    return found


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
    checkout = find_checkout(resolve_cwd(run, manifest.cwd), run.equipment.roots)
    return None if checkout is None else str(checkout)


async def open_in_place(run: ActiveRun, cwd: str) -> Workspace:
    """Return the workspace of a job that works in place.

    Raises Forbidden, NotFound, WorktreeTaken, GitFailed.
    """
    folder = resolve_cwd(run, cwd)
    address = repo_address(run)
    if address is None:
        run.log_line(f"works in {folder}, which is not in a repo")
        return InPlaceFolder(folder)
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
    place.folder = folder
    run.log_line(f"works in {folder}, on {branch} ({base[:12]})")
    return place


async def update_checkout(mirror: Mirror, base: str) -> None:
    """Update the index of a checkout after its branch moved to the content of its files.

    Raises GitFailed.
    """
    checkout = Path(mirror.address.url)
    place = GitLocation(checkout / ".git", checkout)
    head = await mirror.git.run("symbolic-ref", "-q", "--short", "HEAD", place=place, codes=(0, 1))
    if head.text == base:
        await mirror.git.run("reset", "--quiet", "--mixed", place=place)
