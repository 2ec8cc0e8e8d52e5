"""One bare mirror per repo: a copy of the remote where no job can write."""

import contextlib
import hashlib
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from gigafactory.domain.manifest import repo as repos
from gigafactory.factory.core.file_lock import acquire
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.errors import (
    EmptyRepo,
    GitFailed,
    GitNotFound,
    GitTimeout,
    NoDefaultBranch,
)
from gigafactory.factory.git.git import (
    LOCAL_TIMEOUT_S,
    OUTPUT_BYTES_MAX,
    Git,
    GitLocation,
    GitOutput,
)
from gigafactory.factory.git.local_repo import LocalRepo, find_repo, open_view
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.system.atomic_file import write_atomically

FETCH_TIMEOUT_S = 1800.0
ASK_TIMEOUT_S = 90.0
_HALF_PACK_AGE_S = 6 * 3600.0
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ORIGIN = "refs/remotes/origin/"
_OBVIOUS = ("main", "master", "trunk")
# Work in progress of other jobs is fetched by name, if a run continues it.
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


def init_repo(folder: Path, config: str) -> None:
    """Create an empty repo with exactly this configuration."""
    (folder / "refs").mkdir(parents=True)
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "config").write_text(config)


def core_config(*, bare: bool) -> str:
    """Return the settings that describe the file system and the kind of repo."""
    return (
        "[core]\n"
        "\trepositoryformatversion = 0\n"
        f"\tbare = {str(bare).lower()}\n"
        f"\tfilemode = {str(sys.platform != 'win32').lower()}\n"
        f"\tignorecase = {str(sys.platform in {'win32', 'darwin'}).lower()}\n"
        f"\tprecomposeunicode = {str(sys.platform == 'darwin').lower()}\n"
    )


def is_commit(text: str) -> bool:
    """Return whether this is a full commit id."""
    return _COMMIT.fullmatch(text) is not None


def require_ref(name: str) -> str:
    """Return the name of a branch or tag if git cannot mistake it for anything else.

    Raises GitNotFound.
    """
    try:
        return repos.ref(name)
    except ValueError as error:
        raise GitNotFound(
            ("rev-parse",), None, f"{name[:80]!r} is not a ref: expected {error}"
        ) from None


@contextlib.asynccontextmanager
async def _locked(lock: Path) -> AsyncIterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(await acquire(lock, within_s=FETCH_TIMEOUT_S))
        except TimeoutError:
            raise GitTimeout(
                ("fetch",), None, f"{lock.name} is locked by other runs all the time"
            ) from None
        yield


class Mirror:
    """A repo as its remote was at the last fetch."""

    def __init__(self, folder: Path, address: RemoteAddress, git: Git) -> None:
        """Use the mirror in `folder`, created by `Mirrors`."""
        self.folder = folder
        self.address = address
        self.git = git
        self.lock = folder.with_suffix(".lock")

    @property
    def worktrees(self) -> Path:
        """Return the folder of the git folders of this repo's worktrees."""
        return self.folder.with_suffix(".worktrees")

    async def run(
        self,
        *args: str,
        place: GitLocation | None = None,
        remote: bool = False,
        stdin: bytes = b"",
        codes: Collection[int] = (0,),
        timeout_s: float = LOCAL_TIMEOUT_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        settings: Sequence[tuple[str, str]] = (),
        variables: Mapping[str, str] | None = None,
    ) -> GitOutput:
        """Run git in this mirror.

        Raises GitFailed.
        """
        self._restore_config()
        return await self.git.run(
            *args,
            place=place or GitLocation(self.folder),
            address=self.address if remote else None,
            stdin=stdin,
            codes=codes,
            timeout_s=timeout_s,
            output_bytes_max=output_bytes_max,
            settings=settings,
            variables=variables,
        )

    @contextlib.contextmanager
    def remote(self) -> Iterator[str]:
        """Yield the remote as git is given it: its URL, or a view of a repo on this machine.

        Raises RepoNotFound.
        """
        if self.address.scheme != "file":
            yield self.address.url
            return
        with open_view(self.local_repo()) as view:
            yield str(view)

    def local_repo(self) -> LocalRepo:
        """Return the repo on this machine that is the remote.

        Raises RepoNotFound.
        """
        assert self.address.scheme == "file", "the remote is on another machine"
        return find_repo(Path(self.address.url))

    async def fetch(self) -> None:
        """Fetch all branches and tags of the remote, and prune deleted ones."""
        await self._fetch("--prune", refspecs=_REFSPECS)

    async def fetch_branch(self, name: str) -> str:
        """Fetch one branch of the remote, and return its commit.

        Raises GitNotFound if the remote has no such branch.
        """
        branch = require_ref(name)
        refspecs = (f"+refs/heads/{branch}:{_ORIGIN}{branch}",)
        try:
            await self._fetch(refspecs=refspecs)
        except GitFailed as error:
            if type(error) is not GitFailed:
                raise
            # A stale branch `a` blocks a new `a/b`.
            await self.fetch()
            await self._fetch(refspecs=refspecs)
        return await self._object_of(f"{_ORIGIN}{branch}")

    async def resolve(self, ref: str) -> str:
        """Return the commit of a remote branch, a tag or a commit id, as of the last fetch.

        Raises GitNotFound, or EmptyRepo if there is no commit at all.
        """
        name = require_ref(ref)
        candidates = [f"{_ORIGIN}{name}", f"refs/tags/{name}"]
        if is_commit(name):
            candidates.append(name)
        for commit in await self._check_objects(
            [f"{candidate}^{{commit}}" for candidate in candidates]
        ):
            if commit is not None:
                return commit
        if not (await self.run("for-each-ref", "--count=1", _ORIGIN, "refs/tags/")).stdout:
            raise EmptyRepo(("rev-parse",), None, self.address.name)
        hint = "push it, or name another one as `base`"
        raise GitNotFound(
            ("rev-parse",), None, f"{self.address.name} has no branch or tag {name!r}; {hint}"
        )

    async def has_commit(self, commit: str) -> bool:
        """Return whether this commit is here, without contacting the remote."""
        return is_commit(commit) and await self._check_objects([f"{commit}^{{commit}}"]) != [None]

    async def default_branch(self) -> str:
        """Return the branch of the remote's HEAD, or else the one with a usual name.

        Raises EmptyRepo, or NoDefaultBranch if there is none.
        """
        answer = await self.list_remote_refs("--symref", patterns=("HEAD", "refs/heads/*"))
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

    async def list_remote_refs(
        self, *options: str, patterns: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Return the current refs of the remote as (commit, name)."""
        with self.remote() as url:
            output = await self.run(
                *("ls-remote", "--quiet", *options, "--", url, *patterns),
                remote=True,
                timeout_s=ASK_TIMEOUT_S,
            )
        pairs = [line.partition("\t") for line in output.text.splitlines()]
        # A symbolic HEAD is listed twice, its branch first.
        seen: dict[str, str] = {}
        for value, _, name in pairs:
            if name == "HEAD" or name.startswith("refs/heads/"):
                seen.setdefault(name, value)
        return [(value, name) for name, value in seen.items()]

    async def contains(self, descendant: str, commit: str) -> bool:
        """Return whether a commit is an ancestor of another."""
        ask = ("merge-base", "--is-ancestor", commit, descendant)
        return (await self.run(*ask, codes=(0, 1))).code == 0

    async def tree(self, commit: str) -> str:
        """Return the tree of a commit.

        Raises GitNotFound.
        """
        return await self._object_of(commit, "tree")

    async def _fetch(self, *options: str, refspecs: Sequence[str]) -> None:
        async with _locked(self.lock):
            # Garbage collection may have removed an unused one since it was opened.
            _make(self.folder)
            self._remove_partial_packs()
            with self.remote() as url:
                await self.run(
                    *("fetch", *_QUIET, *options, "--", url, *refspecs),
                    remote=True,
                    timeout_s=FETCH_TIMEOUT_S,
                )

    async def _object_of(self, name: str, kind: str = "commit") -> str:
        [object_id] = await self._check_objects([f"{name}^{{{kind}}}"])
        if object_id is None:
            raise GitNotFound(("cat-file",), None, f"{self.address.name} has no {kind} {name!r}")
        return object_id

    async def _check_objects(self, names: Sequence[str]) -> list[str | None]:
        asked = "".join(f"{name}\n" for name in names).encode()
        output = await self.run("cat-file", "--batch-check=%(objectname)", stdin=asked)
        return [line if is_commit(line) else None for line in output.text.splitlines()]

    def _restore_config(self) -> None:
        # Settings that git cannot be told to ignore (include, insteadOf, filters) live in this
        # file: restore it if a job has changed it.
        config = self.folder / "config"
        wanted = core_config(bare=True)
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if not config.is_symlink() and config.read_text() == wanted:
                return
        write_atomically(config, wanted.encode())

    def _remove_partial_packs(self) -> None:
        # A killed fetch leaves a partial pack, which no fetch continues.
        for partial_pack in self.folder.glob("objects/pack/tmp_pack_*"):
            with contextlib.suppress(OSError):
                if time.time() - partial_pack.stat().st_mtime > _HALF_PACK_AGE_S:
                    partial_pack.unlink()


class Mirrors:
    """The mirrors of a machine, in one folder that its factories may share."""

    def __init__(self, folder: Path, git: Git) -> None:
        """Keep them in `folder`, which is created with the first one."""
        self._folder = folder.absolute()
        self._git = git

    def in_folder(self, folder: Path) -> "Mirrors":
        """Return the mirrors in another folder, with the same credentials."""
        return Mirrors(folder, self._git)

    async def open(self, address: RemoteAddress, *, fetch: bool = True) -> Mirror:
        """Return the mirror of a repo, created on first use, and fetched.

        With `fetch=False` only a new one is fetched. Raises GitFailed.
        """
        digest = hashlib.sha256(address.url.encode()).hexdigest()[:12]
        folder = self._folder / f"{address.name.replace('.', '-')}-{digest}.git"
        mirror = Mirror(folder, address, self._git)
        mirror_notes.record_use(folder, address.url)
        if not folder.exists():
            async with _locked(folder.with_suffix(".lock")):
                _make(folder)
            fetch = True
        if fetch:
            await mirror.fetch()
        return mirror

    def folders(self, suffix: str = ".git") -> list[Path]:
        """Return the folders of all mirrors."""
        return sorted(self._folder.glob(f"*{suffix}"))

    def mirror_at(self, folder: Path, address: RemoteAddress) -> Mirror:
        """Return the mirror in this folder, as it is."""
        return Mirror(folder, address, self._git)


def _make(folder: Path) -> None:
    if folder.exists():
        return
    # Renamed when it is complete, so that a crash leaves no partial repo.
    partial = folder.with_suffix(".new")
    shutil.rmtree(partial, ignore_errors=True)
    init_repo(partial, core_config(bare=True))
    partial.rename(folder)
