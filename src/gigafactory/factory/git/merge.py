"""Ships on a plain remote: merges in the mirror, and pushes from the expected commit only."""

from collections.abc import Awaitable, Callable

import msgspec

from gigafactory.domain.manifest.manifest import MergeStyle
from gigafactory.factory.git.commits import JOB, RUN, make_commit, our_trailers
from gigafactory.factory.git.errors import RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import alone_in_checkout, push

_TRIES_MAX = 5


class Merged(msgspec.Struct, frozen=True, rename="camel"):
    """The work is in the base; `before` tells that it was there already."""

    commit: str
    before: bool = False


class Conflict(msgspec.Struct, frozen=True):
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
    ours: Callable[[], Awaitable[bool]] | None = None,
    in_place: bool = False,
    tries_max: int = _TRIES_MAX,
) -> Merged | Conflict | None:
    """Bring a commit into a branch of the remote, once, however often it is asked.

    Before each push `ours` is asked whether it still is ours to do; None when it is not.
    `in_place`: the remote is a checkout in which the work was done, so that it has the files.
    Raises RefMoved when others were always faster, or another GitFailed.
    """
    for left in reversed(range(tries_max)):
        try:
            async with alone_in_checkout(mirror):
                old = await mirror.fetch_branch(base)
                words = await _words(mirror, old, commit)
                if (shipped := await _shipped(mirror, old, commit, words)) is not None:
                    return Merged(shipped, before=True)
                new = await _merged(mirror, old, commit, style, message, words)
                if isinstance(new, Conflict):
                    return new
                if new == old:
                    return Merged(old, before=True)
                if ours is not None and not await ours():
                    return None
                await push(mirror, new, base, expect=old, base=base, in_place=in_place)
                return Merged(new)
        except RefMoved:
            if not left:
                raise
    raise AssertionError("at least one try")


async def _words(mirror: Mirror, old: str, commit: str) -> dict[str, str]:
    """Which job and run the work is from: people may have gone on after the run's own commit."""
    wanted = ("-1", "--first-parent", "--format=%B", f"--grep=^{JOB}: ")
    output = await mirror.run("log", *wanted, "--end-of-options", commit, f"^{old}", "--")
    return our_trailers(output.text)


async def _shipped(mirror: Mirror, old: str, commit: str, words: dict[str, str]) -> str | None:
    """The commit of the base by which the work came in, if it has."""
    since = f"{commit}..{old}"
    if await mirror.contains(old, commit):
        output = await mirror.run(
            "rev-list", "--first-parent", "--ancestry-path", "--merges", "--end-of-options", since
        )
        return output.text.rpartition("\n")[2] or commit
    if JOB not in words or RUN not in words:
        return None
    # A squashed one has another name in the base, and still says which run it is from.
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
        theirs = our_trailers(message)
        if (theirs.get(JOB), theirs.get(RUN)) == (words[JOB], words[RUN]):
            return name
    return None


async def _merged(
    mirror: Mirror, old: str, commit: str, style: MergeStyle, message: str, words: dict[str, str]
) -> str | Conflict:
    if style == "ff":
        if await mirror.contains(commit, old):
            return commit
        return Conflict("the base has moved on, and merge-style ff allows no merge")
    output = await mirror.run(
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", old, commit),
        codes=(0, 1),
    )
    tree, *files = output.stdout.decode("utf-8", "backslashreplace").split("\0")
    if output.code == 1:
        names = tuple(sorted({name for name in files if name}))
        return Conflict(f"{len(names)} files were changed on both sides", names)
    if style == "squash" and tree == await mirror.tree(old):
        return old
    parents = [old] if style == "squash" else [old, commit]
    return await make_commit(mirror, tree, parents, message, words)
