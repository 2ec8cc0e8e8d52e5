"""Ships to a plain remote: merges in the mirror and pushes from the expected commit only."""

from collections.abc import Awaitable, Callable

import msgspec

from gigafactory.domain.manifest.manifest import MergeStyle
from gigafactory.factory.git.commits import JOB, RUN, make_commit, parse_trailers
from gigafactory.factory.git.errors import RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import lock_checkout, push

_TRIES_MAX = 5


class Merged(msgspec.Struct, frozen=True, rename="camel"):
    """The work is in the base; `before`: it was there already."""

    commit: str
    before: bool = False


class MergeConflict(msgspec.Struct, frozen=True):
    """It cannot be merged, and nothing was changed."""

    reason: str
    files: tuple[str, ...] = ()


async def merge(
    mirror: Mirror,
    base: str,
    commit: str,
    style: MergeStyle,
    message: str,
    *,
    still_ours: Callable[[], Awaitable[bool]] | None = None,
    in_place: bool = False,
    tries_max: int = _TRIES_MAX,
) -> Merged | MergeConflict | None:
    """Merge a commit into a branch of the remote; idempotent.

    Before each push `still_ours` returns whether the job is still ours; if not, this returns None.
    `in_place`: the remote is a checkout in which the work was done, so it has the files already.
    Raises RefMoved if others were faster each time, or another GitFailed.
    """
    for left in reversed(range(tries_max)):
        try:
            async with lock_checkout(mirror):
                old = await mirror.fetch_branch(base)
                words = await _work_trailers(mirror, old, commit)
                if (shipped := await _find_shipped(mirror, old, commit, words)) is not None:
                    return Merged(shipped, before=True)
                new = await _merge_commit(mirror, old, commit, style, message, words)
                if isinstance(new, MergeConflict):
                    return new
                if new == old:
                    return Merged(old, before=True)
                if still_ours is not None and not await still_ours():
                    return None
                await push(mirror, new, base, expect=old, base=base, in_place=in_place)
                return Merged(new)
        except RefMoved:
            if not left:
                raise
    raise AssertionError("at least one try")


async def _work_trailers(mirror: Mirror, old: str, commit: str) -> dict[str, str]:
    """Return the trailers of the job and run of the work: people may have added commits to it."""
    wanted = ("-1", "--first-parent", "--format=%B", f"--grep=^{JOB}: ")
    output = await mirror.run("log", *wanted, "--end-of-options", commit, f"^{old}", "--")
    return parse_trailers(output.text)


async def _find_shipped(mirror: Mirror, old: str, commit: str, words: dict[str, str]) -> str | None:
    """Return the commit of the base that contains the work, if it is there."""
    since = f"{commit}..{old}"
    if await mirror.contains(old, commit):
        output = await mirror.run(
            "rev-list", "--first-parent", "--ancestry-path", "--merges", "--end-of-options", since
        )
        return output.text.rpartition("\n")[2] or commit
    if JOB not in words or RUN not in words:
        return None
    # A squashed commit has another id in the base, but its trailers name the run.
    output = await mirror.run(
        "log",
        "-z",
        "--format=%H%n%B",
        "--fixed-strings",
        f"--grep={RUN}: {words[RUN]}",
        "--end-of-options",
        since,
        "--",
    )
    for entry in output.text.split("\0"):
        name, _, message = entry.partition("\n")
        work_trailers = parse_trailers(message)
        if (work_trailers.get(JOB), work_trailers.get(RUN)) == (words[JOB], words[RUN]):
            return name
    return None


async def _merge_commit(
    mirror: Mirror, old: str, commit: str, style: MergeStyle, message: str, words: dict[str, str]
) -> str | MergeConflict:
    if style == "ff":
        if await mirror.contains(commit, old):
            return commit
        return MergeConflict("the base has newer commits, and merge-style ff allows no merge")
    output = await mirror.run(
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", old, commit),
        codes=(0, 1),
    )
    tree, *files = output.stdout.decode("utf-8", "backslashreplace").split("\0")
    if output.code == 1:
        names = tuple(sorted({name for name in files if name}))
        return MergeConflict(f"{len(names)} files were changed on both sides", names)
    if style == "squash" and tree == await mirror.tree(old):
        return old
    parents = [old] if style == "squash" else [old, commit]
    return await make_commit(mirror, tree, parents, message, words)
