"""Repos on this machine, for a git that runs nothing that they name.

Git executes what the configuration and the hooks of a repo say, and for a local remote both ends of
a fetch or push run here, as the factory's user. So git never opens such a repo. It opens a view of
it: a git folder of ours with a fixed configuration and without hooks, whose refs and objects are
links to those of the repo.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gigafactory.factory.git import environment
from gigafactory.factory.git.errors import RepoNotFound

_FILE_BYTES_MAX = 1024 * 1024
_WORKTREES_MAX = 1000
_REFS_MAX = 200_000
_HEAD = re.compile(r"(?:ref: (refs/heads/\S+)|[0-9a-f]{40,64})\s*")
_GITFILE = "gitdir: "
_EXTENSIONS = re.compile(r"^\s*\[\s*extensions\s*\]([^\[]*)", re.MULTILINE | re.IGNORECASE)
_VALUE = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[^\S\n]*(?:=[^\S\n]*([^\s;#]*))?")
_HARMLESS = frozenset({"noop", "preciousobjects", "relativeworktrees", "worktreeconfig"})
_LINKED = ("objects", "refs", "packed-refs", "shallow", "logs")
_PLAIN_ENTRIES = (*_LINKED, "objects/info", "objects/pack")
_VIEW_SETTINGS = (
    ("core.repositoryFormatVersion", "0"),
    ("core.bare", "true"),
    # A repo without reflogs has no folder for them, so that none are written.
    ("core.logAllRefUpdates", "true"),
    ("receive.autogc", "false"),
    ("receive.updateServerInfo", "false"),
    *environment.SETTINGS,
)


class LocalRepo(msgspec.Struct, frozen=True):
    """Where the parts of a repo are."""

    git_dir: Path
    """Has HEAD and the index."""
    common_dir: Path
    """Has refs and objects; another folder in a linked worktree."""
    work_tree: Path | None

    @property
    def branch(self) -> str | None:
        """Return the full name of the branch that is checked out here; None if detached."""
        return _branch(self.git_dir)

    @property
    def owner(self) -> Path:
        """Return the checkout or bare repo that the refs belong to."""
        parts = self.common_dir.parts
        return Path(*parts[: parts.index(".git")]) if ".git" in parts else self.common_dir

    def is_checked_out_elsewhere(self, ref: str) -> bool:
        """Return whether another worktree of the repo has this branch checked out."""
        worktrees = self.common_dir / "worktrees"
        linked = sorted(worktrees.iterdir())[:_WORKTREES_MAX] if worktrees.is_dir() else []
        main = [self.common_dir] if self.common_dir.name == ".git" else []
        return any(_branch(each) == ref for each in (*main, *linked) if each != self.git_dir)


def find_repo(path: Path) -> LocalRepo:
    """Return the repo at a path: a checkout, a linked worktree, or a bare repo.

    Raises RepoNotFound, also for one whose format or links this git cannot be trusted with.
    """
    inside = path / ".git"
    if inside.is_symlink():
        raise _refused(path, "its .git is a link")
    git_dir = inside if inside.is_dir() else path
    if inside.is_file():
        git_dir = _named_in(inside, _GITFILE)
    work_tree = path if inside.exists() else None
    common = git_dir / "commondir"
    repo = LocalRepo(
        git_dir,
        _named_in(common, "") if common.is_file() else git_dir,
        work_tree,
    )
    _check(path, repo)
    return repo


def files_lock(repo: LocalRepo) -> Path:
    """Return the lock of a checkout's files: held by a run that works in place, or by a ship.

    A ship would follow links that a run puts in the place of folders meanwhile. Factories with
    other data folders see the lock too.
    """
    return repo.git_dir / "aq-files.lock"


@contextlib.contextmanager
def open_view(repo: LocalRepo) -> Iterator[Path]:
    """Yield a view of a repo, in a folder of ours; it is removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix="aq-view-", ignore_cleanup_errors=True) as name:
        view = Path(name)
        (view / "config").write_text(_config())
        (view / "HEAD").write_text(f"ref: {repo.branch}\n" if repo.branch else _head(repo.git_dir))
        for entry in _LINKED:
            if entry != "logs" or (repo.common_dir / entry).is_dir():
                (view / entry).symlink_to(repo.common_dir / entry)
        yield view


def _check(path: Path, repo: LocalRepo) -> None:
    common = repo.common_dir
    if not ((common / "objects").is_dir() and (common / "refs").is_dir() and _head(repo.git_dir)):
        raise RepoNotFound(("fetch",), None, f"{path} does not appear to be a git repository")
    # Git would read and write through them, wherever they lead.
    entries = [common / name for name in _PLAIN_ENTRIES]
    entries += [repo.git_dir / "index", repo.git_dir / "HEAD"]
    links = (str(each) for each in entries if each.is_symlink())
    if link := next(links, None) or _find_link(path, (common / "refs", common / "logs")):
        raise _refused(path, f"{link} is a link")
    for match in _EXTENSIONS.finditer(_read(common / "config")):
        for name, value in _VALUE.findall(match[1]):
            usual = (name.lower(), value.lower()) in {
                ("objectformat", "sha1"),
                ("refstorage", "files"),
            }
            if not usual and name.lower() not in _HARMLESS:
                raise _refused(path, f"its format has the extension {name} = {value}")


def _find_link(path: Path, folders: Iterable[Path]) -> str | None:
    """Return a link at any depth of these folders of a repo."""
    waiting, left = [os.fspath(each) for each in folders], _REFS_MAX
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.is_symlink():
                    return entry.path
                if entry.is_dir():
                    waiting.append(entry.path)
        if left < 0:
            raise _refused(path, f"it has more than {_REFS_MAX} loose refs (`git pack-refs --all`)")
    return None


def _refused(path: Path, why: str) -> RepoNotFound:
    return RepoNotFound(
        ("fetch",), None, f"{path} cannot be used by its path, because {why}; name its server's URL"
    )


def _named_in(file: Path, prefix: str) -> Path:
    content = _read(file)
    name = content.removeprefix(prefix).rstrip()
    if not content.startswith(prefix) or not name or "\n" in name:
        raise RepoNotFound(("fetch",), None, f"{file} names no git folder")
    return (file.parent / name).resolve()


def _branch(git_dir: Path) -> str | None:
    match = _HEAD.fullmatch(_head(git_dir))
    return match[1] if match else None


def _head(git_dir: Path) -> str:
    head = _read(git_dir / "HEAD")
    return head if _HEAD.fullmatch(head) else ""


def _read(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(_FILE_BYTES_MAX).decode("utf-8", "replace")


def _config() -> str:
    lines = []
    for key, value in _VIEW_SETTINGS:
        section, _, name = key.rpartition(".")
        section, _, subsection = section.partition(".")
        header = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
        lines.append(f'{header}\n\t{name} = "{value}"\n')
    return "".join(lines)
