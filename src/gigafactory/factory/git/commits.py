"""Commits that the factory makes itself: their message, their trailers, their parents."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from gigafactory.factory.git.mirror import Mirror

JOB = "Aq-Job"
RUN = "Aq-Run"
ENGINE = "Aq-Engine"
EPOCH = "Aq-Epoch"

_OURS = re.compile(r"^\s*aq-[a-z-]+\s*:", re.IGNORECASE)
_TRAILER = re.compile(r"^[A-Za-z][A-Za-z0-9-]*:\s")
_MESSAGE_CHARS_MAX = 64 * 1024


def run_trailers(*, job: str, run: str, engine: str | None, epoch: int) -> dict[str, str]:
    """The trailers by which a commit says which run it is from."""
    trailers = {JOB: job, RUN: run, EPOCH: str(epoch)}
    return trailers if engine is None else {**trailers, ENGINE: engine}


def worded(message: str, trailers: Mapping[str, str]) -> str:
    """The message with its trailers; only we speak of jobs and runs, whoever wrote the rest."""
    text = message.replace("\0", "")[:_MESSAGE_CHARS_MAX]
    lines = [line.rstrip() for line in text.splitlines() if not _OURS.match(line)]
    body = "\n".join(lines).strip() or "Work by an agent"
    if not trailers:
        return body + "\n"
    block = "\n".join(f"{name}: {' '.join(value.split())}" for name, value in trailers.items())
    *rest, last = body.split("\n\n")
    # Git takes only the last paragraph for trailers: a co-author's must stay in it.
    together = rest and all(_TRAILER.match(line) for line in last.splitlines())
    gap = "\n" if together else "\n\n"
    return f"{body}{gap}{block}\n"


def our_trailers(message: str) -> dict[str, str]:
    """The trailers of ours in a commit's message."""
    last = message.strip().rpartition("\n\n")[2]
    pairs = [line.partition(":") for line in last.splitlines() if _OURS.match(line)]
    return {name.strip(): value.strip() for name, _, value in pairs}


async def make_commit(
    mirror: Mirror,
    tree: str,
    parents: Sequence[str],
    message: str,
    trailers: Mapping[str, str],
    *,
    at: datetime | None = None,
) -> str:
    """Write a commit, which no ref names yet; the same words at the same time are the same one.

    Raises GitFailed.
    """
    dates = {} if at is None else {name: f"@{int(at.timestamp())} +0000" for name in _DATES}
    output = await mirror.run(
        "commit-tree",
        *(part for parent in parents for part in ("-p", parent)),
        "-F",
        "-",
        "--end-of-options",
        tree,
        stdin=worded(message, trailers).encode("utf-8", "replace"),
        variables=dates,
    )
    return output.text


async def result_commit(
    mirror: Mirror,
    snapshot: str,
    base: str,
    message: str,
    trailers: Mapping[str, str],
    *,
    at: datetime | None = None,
) -> str:
    """One commit on `base` with all that the snapshot has.

    Raises GitFailed.
    """
    return await make_commit(mirror, f"{snapshot}^{{tree}}", [base], message, trailers, at=at)


_DATES = ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")
