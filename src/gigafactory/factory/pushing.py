"""Moves refs of the remote: only ours, and only from the commit where we expect them."""

import re

from gigafactory.factory.git_failures import GitFailed, PushDenied, RefMoved
from gigafactory.factory.mirror import Mirror, checked_ref, is_commit

PUSH_TIMEOUT_S = 900.0
_OURS = re.compile(r"aq/(?:wip|job)/.+")
_TO_A_CHECKOUT = "--receive-pack=git -c receive.denyCurrentBranch={} receive-pack"
"""A repo of a person on this machine may have the base checked out: then its files follow, as long
as nothing there was changed; those of a checkout that a job has worked in are there already."""


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
    if not is_commit(commit):
        raise PushDenied(("push",), None, f"{commit[:80]!r} is no commit")
    await _move(mirror, commit, _pushable(branch, base), expect, in_place=in_place)


async def drop(mirror: Mirror, branch: str, *, expect: str) -> None:
    """Remove a branch of ours from the remote if it is `expect` now; one that is gone is done.

    Raises RefMoved, or another GitFailed.
    """
    await _move(mirror, None, _pushable(branch, None), expect)


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


async def _move(
    mirror: Mirror, commit: str | None, branch: str, expect: str | None, *, in_place: bool = False
) -> None:
    ref = f"refs/heads/{branch}"
    try:
        await mirror.run(
            "push",
            "--quiet",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            "--recurse-submodules=no",
            f"--force-with-lease={ref}:{expect or ''}",
            *_received(mirror, in_place=in_place),
            "--",
            mirror.address.url,
            f"{commit or ''}:{ref}",
            remote=True,
            timeout_s=PUSH_TIMEOUT_S,
        )
    except GitFailed as error:
        # An answer that was lost, a race, or a refusal: the ref itself tells them apart.
        now = await remote_commit(mirror, branch)
        if now == commit:
            return
        if now != expect:
            raise RefMoved(branch, expected=expect, now=now) from error
        raise


def _received(mirror: Mirror, *, in_place: bool) -> tuple[str, ...]:
    if mirror.address.scheme != "file":
        return ()
    return (_TO_A_CHECKOUT.format("ignore" if in_place else "updateInstead"),)
