"""Finds reverts: commits of the base that undo what a job shipped."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog

from gigafactory.factory.git.commits import JOB, parse_trailers
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.reporting.reporter import Reporter

log = structlog.get_logger()

LATELY = "30.days"
LOOKED_AT_MAX = 20
WITHIN_S = 10.0

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40,64})", re.MULTILINE)


class Revert(NamedTuple):
    """A job whose work was reverted, and the commit that did it."""

    job_id: str
    commit: str


async def find_reverts(mirror: Mirror, base: str) -> AsyncIterator[Revert]:
    """Yield the recent reverts on this branch, newest first.

    Raises GitFailed.
    """
    output = await mirror.run(
        "log",
        "-z",
        f"--max-count={LOOKED_AT_MAX}",
        f"--since={LATELY}",
        "--format=%H%n%B",
        "--grep=^This reverts commit [0-9a-f]",
        "--end-of-options",
        base,
        "--",
    )
    for entry in filter(None, output.text.split("\0")):
        commit, _, message = entry.partition("\n")
        for reverted in _REVERTS.findall(message):
            job_id = await _job_of(mirror, reverted)
            if job_id is not None:
                yield Revert(job_id, commit)


async def report_reverts(reporter: Reporter, mirror: Mirror, base: str) -> None:
    """Report reverts as defects; failures are logged and do not affect the run."""
    try:
        async with asyncio.timeout(WITHIN_S):
            async for revert in find_reverts(mirror, base):
                await reporter.report_revert(revert.job_id, revert.commit)
    except (GitFailed, TimeoutError) as trouble:
        log.info("reverts not reported", repo=mirror.address.name, reason=str(trouble))


async def _job_of(mirror: Mirror, commit: str) -> str | None:
    """Return the job of a commit; None for commits of others, and for unknown ones."""
    try:
        output = await mirror.run("log", "-1", "--format=%B", "--end-of-options", commit, "--")
    except GitFailed:
        return None
    return parse_trailers(output.text).get(JOB)
