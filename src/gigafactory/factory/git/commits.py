"""Commits that the factory creates: message, trailers and parents."""

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
    """Return the trailers by which a commit names its run."""
    trailers = {JOB: job, RUN: run, EPOCH: str(epoch)}
    return trailers if engine is None else {**trailers, ENGINE: engine}


def with_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """Return the message with these trailers; trailers of ours that others wrote are removed."""
    text = message.replace("\0", "")[:_MESSAGE_CHARS_MAX]
    lines = [line.rstrip() for line in text.splitlines() if not _OURS.match(line)]
    body = "\n".join(lines).strip() or "Work by an agent"
    if not trailers:
        return body + "\n"
    block = "\n".join(f"{name}: {' '.join(value.split())}" for name, value in trailers.items())
    *rest, last = body.split("\n\n")
    # Git reads trailers only from the last paragraph: a co-author's must stay in it.
    together = rest and all(_TRAILER.match(line) for line in last.splitlines())
    gap = "\n" if together else "\n\n"
    return f"{body}{gap}{block}\n"


def parse_trailers(message: str) -> dict[str, str]:
    """Return our trailers in a commit message."""
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
    """Create a commit that no ref names yet; the same content at the same time is the same one.

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
        stdin=with_trailers(message, trailers).encode("utf-8", "replace"),
        variables=dates,
    )
    return output.text


_DATES = ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")
