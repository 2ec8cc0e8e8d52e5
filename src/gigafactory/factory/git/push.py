"""Updates refs of the remote: only ours, and only from the commit that we expect.

A person's checkout that shows such a branch gets its files too, as `updateInstead` of git does it,
but with the mirror's configuration: no filter, hook or monitor of the checkout runs.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from gigafactory.factory.core.file_lock import acquire
from gigafactory.factory.git.errors import (
    AtomicPushUnsupported,
    GitFailed,
    GitTimeout,
    PushDenied,
    RefMoved,
)
from gigafactory.factory.git.git import GitLocation
from gigafactory.factory.git.local_repo import LocalRepo, files_lock
from gigafactory.factory.git.mirror import Mirror, is_commit, require_ref

PUSH_TIMEOUT_S = 900.0
FILES_LOCK_S = 5.0
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_OURS = re.compile(r"aq/(?:wip|job)/.+")


class RefUpdate(msgspec.Struct, frozen=True):
    """An update of a branch to `commit` if it is at `expect` now; None means no such branch."""

    branch: str
    commit: str | None
    expect: str | None


@asynccontextmanager
async def lock_checkout(mirror: Mirror) -> AsyncIterator[None]:
    """Hold the lock for shipping into a repo that is checked out on this machine.

    Git updates the files before the branch: two pushes at once would take each other's files for
    changes of the person whose checkout it is. Raises GitTimeout.
    """
    repo = _checkout(mirror)
    if repo is None:
        yield
        return
    try:
        lock = await acquire(repo.git_dir / "aq-ship.lock", within_s=PUSH_TIMEOUT_S)
    except TimeoutError:
        raise GitTimeout(
            ("push",), None, f"other runs are shipping into {mirror.address.name}"
        ) from None
    with lock:
        yield


async def push(
    mirror: Mirror,
    commit: str,
    branch: str,
    *,
    expect: str | None,
    base: str | None = None,
    in_place: bool = False,
) -> None:
    """Update the remote's branch to this commit if it is at `expect` now; None: if it is absent.

    Only aq/wip/*, aq/job/* and, when a job ships, its `base` are ever pushed to. Succeeds if the
    branch is there already. Raises RefMoved, which says where it is, or another GitFailed.
    """
    move = RefUpdate(_pushable(branch, base), _require_commit(commit), expect)
    await _update_refs(mirror, move, in_place=in_place)


async def push_atomically(mirror: Mirror, *moves: RefUpdate) -> None:
    """Update several of our branches atomically.

    Raises AtomicPushUnsupported, RefMoved, or another GitFailed.
    """
    for move in moves:
        _require_commit(move.commit or "")
        _pushable(move.branch, None)
    await _update_refs(mirror, *moves)


async def delete_branches(mirror: Mirror, branches: Mapping[str, str]) -> dict[str, str]:
    """Delete branches of ours, each only from the given commit; return failures by name.

    Raises GitFailed if the result is unknown.
    """
    for branch in branches:
        _pushable(branch, None)
    try:
        leases = (f"--force-with-lease=refs/heads/{name}:{at}" for name, at in branches.items())
        await _push(mirror, *leases, refspecs=[f":refs/heads/{name}" for name in branches])
    except GitFailed as error:
        now = await remote_branches(mirror, "aq/*")
        return {
            name: str(error) if now[name] == at else f"it is now at {now[name][:12]}"
            for name, at in branches.items()
            if name in now
        }
    return {}


async def remote_commit(mirror: Mirror, branch: str) -> str | None:
    """Return the commit of a remote branch now; None if it does not exist."""
    return (await remote_branches(mirror, require_ref(branch))).get(branch)


async def remote_branches(mirror: Mirror, pattern: str) -> dict[str, str]:
    """Return the remote branches that match, such as `aq/wip/*`, with their commits."""
    require_ref(pattern.replace("*", "x"))
    answer = await mirror.list_remote_refs(patterns=(f"refs/heads/{pattern}",))
    return {name.removeprefix("refs/heads/"): commit for commit, name in answer}


def _pushable(branch: str, base: str | None) -> str:
    name = require_ref(branch)
    if not _OURS.fullmatch(name) and name != base:
        raise PushDenied(
            ("push",), None, f"{name!r} must not be pushed to: only aq/wip/*, aq/job/* and the base"
        )
    return name


def _require_commit(commit: str) -> str:
    if not is_commit(commit):
        raise PushDenied(("push",), None, f"{commit[:80]!r} is not a commit")
    return commit


async def _update_refs(mirror: Mirror, *moves: RefUpdate, in_place: bool = False) -> None:
    checked_out = _checked_out_update(mirror, moves)
    if checked_out is None or in_place or checked_out.commit is None:
        await _move_refs(mirror, moves, None)
        return
    async with _files_locked(mirror.local_repo()):
        await update_files(mirror, mirror.local_repo(), checked_out.expect, checked_out.commit)
        await _move_refs(mirror, moves, checked_out)


@asynccontextmanager
async def _files_locked(repo: LocalRepo) -> AsyncIterator[None]:
    """Hold the lock of the files of a checkout.

    Raises PushDenied if a run works in place there.
    """
    try:
        lock = await acquire(files_lock(repo), within_s=FILES_LOCK_S)
    except TimeoutError:
        raise _push_denied(
            "a job works in place in the checkout; try again when it has ended"
        ) from None
    with lock:
        yield


async def _move_refs(
    mirror: Mirror, moves: Sequence[RefUpdate], deployed: RefUpdate | None
) -> None:
    """Move the refs of the remote; if that fails, take back the files of `deployed`."""
    leases = (f"--force-with-lease=refs/heads/{each.branch}:{each.expect or ''}" for each in moves)
    try:
        await _push(
            mirror,
            *(("--atomic",) if len(moves) > 1 else ()),
            *leases,
            refspecs=[f"{each.commit or ''}:refs/heads/{each.branch}" for each in moves],
        )
    except AtomicPushUnsupported:
        raise
    except GitFailed as error:
        # A lost response, a race, or a refusal: the refs themselves tell them apart.
        now = [await remote_commit(mirror, each.branch) for each in moves]
        if now == [each.commit for each in moves]:
            return
        if deployed is not None and deployed.commit is not None and deployed.expect is not None:
            await update_files(mirror, mirror.local_repo(), deployed.commit, deployed.expect)
        for each, current in zip(moves, now, strict=True):
            if current != each.expect:
                raise RefMoved(each.branch, expected=each.expect, now=current) from error
        raise


async def _push(mirror: Mirror, *options: str, refspecs: Sequence[str]) -> None:
    fixed = ("--quiet", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
    with mirror.remote() as url:
        await mirror.run(
            *("push", *fixed, *options, "--", url, *refspecs),
            remote=True,
            timeout_s=PUSH_TIMEOUT_S,
        )


def _checkout(mirror: Mirror) -> LocalRepo | None:
    """Return the remote if it is a checkout on this machine; else None."""
    repo = mirror.local_repo() if mirror.address.scheme == "file" else None
    return repo if repo is not None and repo.work_tree is not None else None


def _checked_out_update(mirror: Mirror, moves: Sequence[RefUpdate]) -> RefUpdate | None:
    """Return the update of the branch that a person's checkout shows, if there is one.

    Raises PushDenied for a branch that another worktree of the checkout shows.
    """
    repo = _checkout(mirror)
    if repo is None:
        return None
    for each in moves:
        if repo.is_checked_out_elsewhere(f"refs/heads/{each.branch}"):
            problem = f"{each.branch} is checked out in another worktree of {mirror.address.url}"
            raise _push_denied(problem)
    return next((each for each in moves if f"refs/heads/{each.branch}" == repo.branch), None)


async def update_files(mirror: Mirror, repo: LocalRepo, old: str | None, new: str) -> None:
    """Update the files and the index of a checkout from one commit to another.

    Succeeds if they are there already. Raises PushDenied if anything is changed or in the way.
    """
    place = _location(mirror, repo)
    await mirror.run(
        *("update-index", "-q", "--ignore-submodules", "--refresh"), place=place, codes=(0, 1)
    )
    if await _differs(mirror, place, "diff-files", "--"):
        raise _push_denied("the checkout has changes that are not committed")
    # A push that was interrupted has left the new files.
    if not await _differs(mirror, place, "diff-index", "--cached", new, "--"):
        return
    if await _differs(mirror, place, "diff-index", "--cached", old or _EMPTY_TREE, "--"):
        raise _push_denied("the checkout has staged changes")
    try:
        await mirror.run("read-tree", "-u", "-m", new, place=place)
    except GitFailed as failed:
        if type(failed) is not GitFailed:
            raise
        raise _push_denied(
            f"the files of the checkout cannot be updated: {failed.stderr}"
        ) from failed


async def update_index(mirror: Mirror, repo: LocalRepo, commit: str) -> None:
    """Update only the index of a checkout to a commit: its files have the content already.

    Raises GitFailed.
    """
    place = _location(mirror, repo)
    await mirror.run("read-tree", "--reset", commit, place=place)
    await mirror.run(
        *("update-index", "-q", "--ignore-submodules", "--refresh"), place=place, codes=(0, 1)
    )


async def _differs(mirror: Mirror, place: GitLocation, command: str, *rest: str) -> bool:
    asked = (command, "--quiet", "--ignore-submodules", *rest)
    return (await mirror.run(*asked, place=place, codes=(0, 1))).code == 1


def _location(mirror: Mirror, repo: LocalRepo) -> GitLocation:
    assert repo.work_tree is not None, "only a checkout has files"
    return GitLocation(mirror.folder, repo.work_tree, repo.git_dir / "index")


def _push_denied(why: str) -> PushDenied:
    return PushDenied(("push",), 1, f"!\t[remote rejected] {why}")
