"""One bare mirror a repo: what the remote has, kept where no job can write."""

import contextlib
import hashlib
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path

from gigafactory.domain.manifest import repo as repos
from gigafactory.factory.core.file_lock import acquire
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.errors import (
    EmptyRepo,
    GitFailed,
    GitTimeout,
    Missing,
    NoDefaultBranch,
)
from gigafactory.factory.git.git import LOCAL_TIMEOUT_S, OUTPUT_BYTES_MAX, Git, Output, Place
from gigafactory.factory.git.remote_url import Address
from gigafactory.system.atomic_file import write_atomically

FETCH_TIMEOUT_S = 1800.0
ASK_TIMEOUT_S = 90.0
_HALF_PACK_AGE_S = 6 * 3600.0
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ORIGIN = "refs/remotes/origin/"
_OBVIOUS = ("main", "master", "trunk")
# Work in progress of other jobs is fetched by name, when somebody goes on with it.
_REFSPECS = (
    f"+refs/heads/*:{_ORIGIN}*",
    "^refs/heads/aq/*",
    "+refs/tags/*:refs/tags/*",
)
_QUIET = (
    "--quiet",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-write-fetch-head",
)


def lay_out(folder: Path, config: str) -> None:
    """Write an empty repo with exactly this configuration."""
    (folder / "refs").mkdir(parents=True)
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_text(config)


def core_config(*, bare: bool) -> str:
    """The settings that tell git what kind of disk and repo it is on."""
    return (
        "[core]\n"
        "\trepositoryformatversion = 0\n"
        f"\tbare = {str(bare).lower()}\n"
        f"\tfilemode = {str(sys.platform != 'win32').lower()}\n"
        f"\tignorecase = {str(sys.platform in {'win32', 'darwin'}).lower()}\n"
        f"\tprecomposeunicode = {str(sys.platform == 'darwin').lower()}\n"
    )


def is_commit(text: str) -> bool:
    """Whether this is the whole id of a commit."""
    return _COMMIT.fullmatch(text) is not None


def checked_ref(name: str) -> str:
    """The name of a branch or tag that git can take for nothing else.

    Raises Missing.
    """
    try:
        return repos.ref(name)
    except ValueError as error:
        raise Missing(("rev-parse",), None, f"{name[:80]!r} is no ref: expected {error}") from None


@contextlib.asynccontextmanager
async def _alone(lock: Path) -> AsyncIterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(await acquire(lock, within_s=FETCH_TIMEOUT_S))
        except TimeoutError:
            raise GitTimeout(("fetch",), None, f"others hold {lock.name} all the time") from None
        yield


class Mirror:
    """A repo as its remote had it when it was last fetched."""

    def __init__(self, folder: Path, address: Address, git: Git) -> None:
        """Stand for the mirror in `folder`, which `Mirrors` has made."""
        self.folder = folder
        self.address = address
        self.git = git
        self.lock = folder.with_suffix(".lock")

    @property
    def worktrees(self) -> Path:
        """Where the git folders of this repo's worktrees are kept."""
        return self.folder.with_suffix(".worktrees")

    async def run(
        self,
        *args: str,
        place: Place | None = None,
        remote: bool = False,
        stdin: bytes = b"",
        codes: Collection[int] = (0,),
        timeout_s: float = LOCAL_TIMEOUT_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        settings: Sequence[tuple[str, str]] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Output:
        """Run git in this mirror.

        Raises GitFailed.
        """
        self._seal()
        return await self.git.run(
            *args,
            place=place or Place(self.folder),
            address=self.address if remote else None,
            stdin=stdin,
            codes=codes,
            timeout_s=timeout_s,
            output_bytes_max=output_bytes_max,
            settings=settings,
            variables=variables,
        )

    async def fetch(self) -> None:
        """Take over all branches and tags of the remote, and forget those that are gone."""
        await self._fetch("--prune", refspecs=_REFSPECS)

    async def fetch_branch(self, name: str) -> str:
        """Take over one branch of the remote, and give its commit.

        Raises Missing when the remote has no such branch.
        """
        branch = checked_ref(name)
        refspecs = (f"+refs/heads/{branch}:{_ORIGIN}{branch}",)
        try:
            await self._fetch(refspecs=refspecs)
        except GitFailed as error:
            if type(error) is not GitFailed:
                raise
            # A stale branch `a` stands in the way of a new `a/b`.
            await self.fetch()
            await self._fetch(refspecs=refspecs)
        return await self._peeled(f"{_ORIGIN}{branch}")

    async def resolve(self, ref: str) -> str:
        """The commit of a branch of the remote, a tag, or a commit's own id, as last fetched.

        Raises Missing, or EmptyRepo when there is no commit at all.
        """
        name = checked_ref(ref)
        candidates = [f"{_ORIGIN}{name}", f"refs/tags/{name}"]
        if is_commit(name):
            candidates.append(name)
        for found in await self._kinds([f"{candidate}^{{commit}}" for candidate in candidates]):
            if found is not None:
                return found
        if not (await self.run("for-each-ref", "--count=1", _ORIGIN, "refs/tags/")).stdout:
            raise EmptyRepo(("rev-parse",), None, self.address.name)
        hint = "push it, or name another one as `base`"
        raise Missing(
            ("rev-parse",), None, f"{self.address.name} has no branch or tag {name!r}; {hint}"
        )

    async def has(self, commit: str) -> bool:
        """Whether this commit is here, without asking the remote."""
        return is_commit(commit) and await self._kinds([f"{commit}^{{commit}}"]) != [None]

    async def default_branch(self) -> str:
        """The branch that the remote's HEAD stands on, or else the obvious one.

        Raises EmptyRepo, or NoDefaultBranch when none is obvious.
        """
        answer = await self.ask("--symref", patterns=("HEAD", "refs/heads/*"))
        branches = {ref.removeprefix("refs/heads/"): commit for commit, ref in answer}
        head = branches.pop("HEAD", "")
        if head.startswith("ref: refs/heads/"):
            return head.removeprefix("ref: refs/heads/")
        if not branches:
            raise EmptyRepo(("ls-remote",), None, self.address.name)
        if len(branches) == 1:
            return next(iter(branches))
        for name in _OBVIOUS:
            if name in branches:
                return name
        raise NoDefaultBranch(("ls-remote",), None, self.address.name)

    async def ask(self, *options: str, patterns: Sequence[str]) -> list[tuple[str, str]]:
        """What the remote says its refs are now, as (commit, name)."""
        output = await self.run(
            "ls-remote",
            "--quiet",
            *options,
            "--",
            self.address.url,
            *patterns,
            remote=True,
            timeout_s=ASK_TIMEOUT_S,
        )
        pairs = [line.partition("\t") for line in output.text.splitlines()]
        # A symbolic HEAD is told twice, its branch first.
        seen: dict[str, str] = {}
        for value, _, name in pairs:
            if name == "HEAD" or name.startswith("refs/heads/"):
                seen.setdefault(name, value)
        return [(value, name) for name, value in seen.items()]

    async def contains(self, descendant: str, commit: str) -> bool:
        """Whether a commit is part of the history of another."""
        ask = ("merge-base", "--is-ancestor", commit, descendant)
        return (await self.run(*ask, codes=(0, 1))).code == 0

    async def tree(self, commit: str) -> str:
        """The tree of a commit.

        Raises Missing.
        """
        return await self._peeled(commit, "tree")

    async def _fetch(self, *options: str, refspecs: Sequence[str]) -> None:
        url = self.address.url
        async with _alone(self.lock):
            # One that nobody used for long may have been removed since it was opened.
            _make(self.folder)
            self._sweep()
            await self.run(
                *("fetch", *_QUIET, *options, "--", url, *refspecs),
                remote=True,
                timeout_s=FETCH_TIMEOUT_S,
            )

    async def _peeled(self, name: str, kind: str = "commit") -> str:
        [found] = await self._kinds([f"{name}^{{{kind}}}"])
        if found is None:
            raise Missing(("cat-file",), None, f"{self.address.name} has no {kind} {name!r}")
        return found

    async def _kinds(self, names: Sequence[str]) -> list[str | None]:
        asked = "".join(f"{name}\n" for name in names).encode()
        output = await self.run("cat-file", "--batch-check=%(objectname)", stdin=asked)
        return [line if is_commit(line) else None for line in output.text.splitlines()]

    def _seal(self) -> None:
        # Settings that git cannot be told to ignore (include, insteadOf, filters) live in this
        # file: one that a job has changed is not what we wrote.
        config = self.folder / "config"
        wanted = core_config(bare=True)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if not config.is_symlink() and config.read_text() == wanted:
                return
        write_atomically(config, wanted.encode())

    def _sweep(self) -> None:
        # A fetch that was killed leaves half a pack behind, and nobody takes it up again.
        for half in self.folder.glob("objects/pack/tmp_pack_*"):
            with contextlib.suppress(OSError):
                if time.time() - half.stat().st_mtime > _HALF_PACK_AGE_S:
                    half.unlink()


class Mirrors:
    """The mirrors of a machine, in one folder that its factories may share."""

    def __init__(self, folder: Path, git: Git) -> None:
        """Keep them below `folder`, which is made when the first one is."""
        self._folder = folder.absolute()
        self._git = git

    def at(self, folder: Path) -> "Mirrors":
        """Others in another folder, reached with the same credentials."""
        return Mirrors(folder, self._git)

    async def open(self, address: Address, *, fetch: bool = True) -> Mirror:
        """The mirror of a repo, made on first use, with what the remote has now.

        With `fetch=False` only a new one is fetched. Raises GitFailed.
        """
        digest = hashlib.sha256(address.url.encode()).hexdigest()[:12]
        folder = self._folder / f"{address.name.replace('.', '-')}-{digest}.git"
        mirror = Mirror(folder, address, self._git)
        mirror_notes.note_use(folder, address.url)
        if not folder.exists():
            async with _alone(folder.with_suffix(".lock")):
                _make(folder)
            fetch = True
        if fetch:
            await mirror.fetch()
        return mirror

    def kept(self, suffix: str = ".git") -> list[Path]:
        """The folders of all mirrors that there are."""
        return sorted(self._folder.glob(f"*{suffix}"))

    def stand_for(self, folder: Path, address: Address) -> Mirror:
        """The mirror that is kept in this folder, as it is."""
        return Mirror(folder, address, self._git)


def _make(folder: Path) -> None:
    if folder.exists():
        return
    # Renamed when it is whole, so that a crash leaves no half of a repo.
    half = folder.with_suffix(".new")
    shutil.rmtree(half, ignore_errors=True)
    lay_out(half, core_config(bare=True))
    half.rename(folder)
