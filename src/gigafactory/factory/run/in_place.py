"""Work in place (`cwd`): in a person's own folder as it is, below the roots that are allowed."""

from collections.abc import Sequence
from pathlib import Path

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.factory.git.git import Place
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.remote_url import Address
from gigafactory.factory.git.workspace import PlainFolder, RepoWorkplace, Workplace
from gigafactory.factory.git.worktree import Adopted
from gigafactory.factory.run.active_run import ActiveRun


class InPlaceFolder(PlainFolder):
    """A person's folder that is in no repo: it is neither emptied nor removed."""

    def __init__(self, path: Path) -> None:
        """Leave it as it is."""
        self._path = path

    async def quarantine(self, folder: Path) -> None:
        """Nothing is kept elsewhere: all of it stays where it is."""

    async def remove(self) -> None:
        """Leave it as it is."""


class InPlaceCheckout(RepoWorkplace):
    """A folder of a person's checkout: the work goes to branches of that repo, and HEAD stays."""

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
    """The folder that a job names, without links, if it lies below a root.

    Raises Forbidden, or NotFound.
    """
    allowed = [root.resolve() for root in run.equipment.roots]
    folder = Path(cwd).resolve()
    if folder.is_relative_to(run.equipment.data_dir.root.resolve()):
        raise Forbidden(f"{cwd} is the factory's own folder: name one of your own")
    if not any(folder.is_relative_to(root) for root in allowed):
        shown = ", ".join(map(str, allowed)) or "none are named"
        raise Forbidden(
            f"{cwd} is not below a folder in which jobs may work in place;"
            f" those are the setting factory.roots ({shown})"
        )
    if not folder.is_dir():
        raise NotFound("folder", cwd, "there is no folder of this name on this machine")
    return folder


def find_checkout(folder: Path, roots: Sequence[Path]) -> Path | None:
    """The checkout that a folder belongs to, itself below a root; None when it is in no repo."""
    allowed = [root.resolve() for root in roots]
    above = (each for each in (folder, *folder.parents) if (each / ".git").exists())
    found = next(above, None)
    if found is None or not any(found.is_relative_to(root) for root in allowed):
        return None
    return found


def repo_address(run: ActiveRun) -> Address | None:
    """The repo that a job works on and ships to, by its name or by the folder it works in.

    Raises what `folder_for` and `Repos.address` do.
    """
    manifest, roots = run.assignment.manifest, run.equipment.roots
    if manifest.cwd is None:
        return None if manifest.repo is None else run.equipment.repos.address(manifest.repo)
    checkout = find_checkout(resolve_cwd(run, manifest.cwd), roots)
    return None if checkout is None else run.equipment.repos.address(str(checkout))


async def open_in_place(run: ActiveRun, cwd: str) -> Workplace:
    """The place of a job that works in place.

    Raises Forbidden, NotFound, WorktreeTaken, or GitFailed.
    """
    folder = resolve_cwd(run, cwd)
    address = repo_address(run)
    if address is None:
        run.log_line(f"works in {folder}, which is in no repo")
        return InPlaceFolder(folder)
    mirror = await run.equipment.mirrors.open(address)
    branch = run.assignment.manifest.base or await mirror.default_branch()
    base = await mirror.resolve(branch)
    place = InPlaceCheckout(
        Adopted.take(mirror, Path(address.url), base),
        run.assignment,
        base_branch=branch,
        base=base,
        secrets=run.equipment.secrets,
    )
    place.folder = folder
    run.log_line(f"works in {folder}, on {branch} ({base[:12]})")
    return place


async def update_checkout(mirror: Mirror, base: str) -> None:
    """Let a checkout know that its branch has moved on to what its files say already.

    Raises GitFailed.
    """
    checkout = Path(mirror.address.url)
    place = Place(checkout / ".git", checkout)
    head = await mirror.git.run("symbolic-ref", "-q", "--short", "HEAD", place=place, codes=(0, 1))
    if head.text == base:
        await mirror.git.run("reset", "--quiet", "--mixed", place=place)
