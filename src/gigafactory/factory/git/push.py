"""Moves refs of the remote: only ours, and only from the commit where we expect them."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gigafactory.factory.core.file_lock import acquire
from gigafactory.factory.git.errors import (
    GitFailed,
    GitTimeout,
    NotTogether,
    PushDenied,
    RefMoved,
)
from gigafactory.factory.git.mirror import Mirror, checked_ref, is_commit

PUSH_TIMEOUT_S = 900.0
_OURS = re.compile(r"aq/(?:wip|job)/.+")
_TO_A_CHECKOUT = "--receive-pack=git -c receive.denyCurrentBranch={} receive-pack"
"""A repo of a person on this machine may have the base checked out: then its files follow, as long
as nothing there was changed; those of a checkout that a job has worked in are there already."""


class Move(msgspec.Struct, frozen=True):
    """A branch that is to be `commit`, if it is `expect` now; None stands for no such branch."""

    branch: str
    commit: str | None
    expect: str | None


@asynccontextmanager
async def alone_in_checkout(mirror: Mirror) -> AsyncIterator[None]:
    """Have nobody else of ours ship into a repo that is checked out on this machine.

    Git has its files follow before it moves the branch: two at once would see each other's files
    as changes of the person whose checkout it is. Raises GitTimeout.
    """
    git_dir = Path(mirror.address.url) / ".git"
    if mirror.address.scheme != "file" or not git_dir.is_dir():
        yield
        return
    try:
        lock = await acquire(git_dir / "aq-ship.lock", within_s=PUSH_TIMEOUT_S)
    except TimeoutError:
        raise GitTimeout(("push",), None, f"others ship into {mirror.address.name}") from None
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
    """Make the remote's branch this commit if it is `expect` now; None: if it is not there.

    Only aq/wip/*, aq/job/* and, when it ships, the job's `base` are ever pushed to. Pushing what
    is there already is done. Raises RefMoved, which says where it is, or another GitFailed.
    """
    move = Move(_pushable(branch, base), _whole(commit), expect)
    await _moved(mirror, move, in_place=in_place)


async def push_together(mirror: Mirror, *moves: Move) -> None:
    """Move several branches of ours, all of them or none.

    Raises NotTogether where the remote cannot do so, RefMoved, or another GitFailed.
    """
    for move in moves:
        _whole(move.commit or "")
        _pushable(move.branch, None)
    await _moved(mirror, *moves)


async def drop(mirror: Mirror, branch: str, *, expect: str) -> None:
    """Remove a branch of ours from the remote if it is `expect` now; one that is gone is done.

    Raises RefMoved, or another GitFailed.
    """
    await _moved(mirror, Move(_pushable(branch, None), None, expect))


async def drop_all(mirror: Mirror, branches: Mapping[str, str]) -> dict[str, str]:
    """Remove branches of ours, each only from the commit named; gives those that stay, and why.

    Raises GitFailed when it is not known what became of them.
    """
    for branch in branches:
        _pushable(branch, None)
    try:
        await mirror.run(
            "push",
            "--quiet",
            "--porcelain",
            "--no-verify",
            *(f"--force-with-lease=refs/heads/{name}:{at}" for name, at in branches.items()),
            "--",
            mirror.address.url,
            *(f":refs/heads/{name}" for name in branches),
            remote=True,
            timeout_s=PUSH_TIMEOUT_S,
        )
    except GitFailed as error:
        now = await remote_branches(mirror, "aq/*")
        return {
            name: str(error) if now[name] == at else f"it has moved to {now[name][:12]} meanwhile"
            for name, at in branches.items()
            if name in now
        }
    return {}


async def remote_commit(mirror: Mirror, branch: str) -> str | None:
    """Where the remote's branch is now; None when it has none of this name."""
    return (await remote_branches(mirror, checked_ref(branch))).get(branch)


async def remote_branches(mirror: Mirror, pattern: str) -> dict[str, str]:
    """The branches of the remote that match, such as `aq/wip/*`, with their commits."""
    checked_ref(pattern.replace("*", "x"))
    answer = await mirror.ask(patterns=(f"refs/heads/{pattern}",))
    return {name.removeprefix("refs/heads/"): commit for commit, name in answer}


def _pushable(branch: str, base: str | None) -> str:
    name = checked_ref(branch)
    if not _OURS.fullmatch(name) and name != base:
        raise PushDenied(
            ("push",), None, f"{name!r} is not ours: only aq/wip/*, aq/job/* and a base to ship to"
        )
    return name


def _whole(commit: str) -> str:
    if not is_commit(commit):
        raise PushDenied(("push",), None, f"{commit[:80]!r} is no commit")
    return commit


async def _moved(mirror: Mirror, *moves: Move, in_place: bool = False) -> None:
    try:
        await mirror.run(
            "push",
            "--quiet",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            *(("--atomic",) if len(moves) > 1 else ()),
            *(f"--force-with-lease=refs/heads/{each.branch}:{each.expect or ''}" for each in moves),
            *_received(mirror, in_place=in_place),
            "--",
            mirror.address.url,
            *(f"{each.commit or ''}:refs/heads/{each.branch}" for each in moves),
            remote=True,
            timeout_s=PUSH_TIMEOUT_S,
        )
    except NotTogether:
        raise
    except GitFailed as error:
        # An answer that was lost, a race, or a refusal: the refs themselves tell them apart.
        now = [await remote_commit(mirror, each.branch) for each in moves]
        if now == [each.commit for each in moves]:
            return
        for each, there in zip(moves, now, strict=True):
            if there != each.expect:
                raise RefMoved(each.branch, expected=each.expect, now=there) from error
        raise


def _received(mirror: Mirror, *, in_place: bool) -> tuple[str, ...]:
    if mirror.address.scheme != "file":
        return ()
    return (_TO_A_CHECKOUT.format("ignore" if in_place else "updateInstead"),)
