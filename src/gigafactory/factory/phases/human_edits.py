"""Commits that people added to a job's branch between its delivery and its shipping.

Only a commit that was approved is shipped. If people continued after the approval, the job moves to
the newer commit and needs another decision.
"""

import msgspec

from gigafactory.domain.job.job import Checkpoint, Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.diff import compare
from gigafactory.factory.git.errors import GitNotFound
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import remote_branches
from gigafactory.factory.phases.diff import upload_diff
from gigafactory.factory.phases.scope import record_diff
from gigafactory.factory.run.active_run import ActiveRun


class HumanEdits(msgspec.Struct, frozen=True):
    """The newer commit of a branch; `lines` is None if it does not descend from ours."""

    commit: str
    lines: int | None


async def find_human_edits(mirror: Mirror, base: str, work: Checkpoint) -> HumanEdits | None:
    """Return what people added to the branch of this work; None if it is unchanged.

    Raises GitFailed.
    """
    tip = (await remote_branches(mirror, work.branch)).get(work.branch)
    if tip is None or tip == work.commit:
        return None
    try:
        tip = await mirror.fetch_branch(work.branch)
    except GitNotFound:
        return None
    if await mirror.contains(work.commit, tip):
        # The branch was reset to an earlier commit: there is nothing new on it.
        return None
    lines = None
    if await mirror.contains(tip, work.commit):
        lines = await _count_lines(mirror, base, work.commit, tip)
    return HumanEdits(tip, lines)


async def return_for_review(
    run: ActiveRun, mirror: Mirror, base: str, edits: HumanEdits
) -> RunOutcome:
    """Move the job to the newer commit, upload its diff, and return it for a decision.

    Raises GitFailed.
    """
    work = run.assignment.checkpoint
    assert work is not None
    newer = msgspec.structs.replace(work, commit=edits.commit)
    run.findings.checkpoint = newer
    run.findings.edited_lines = edits.lines
    tip = await mirror.resolve(base)
    fork = (await mirror.run("merge-base", tip, newer.commit, codes=(0, 1))).text.strip() or tip
    await record_diff(run, await compare(mirror, fork, newer.commit))
    await upload_diff(run, mirror, fork, newer.commit)
    counted = "" if edits.lines is None else f" ({edits.lines} lines)"
    reason = (
        f"people continued on {newer.branch}: it is at {newer.commit[:12]}{counted}, and"
        f" {work.commit[:12]} was approved; review the newer one, then ship it"
    )
    return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)


async def _count_lines(mirror: Mirror, base: str, since: str, tip: str) -> int:
    """Count changed lines of the newer commits, without those merged from the base."""
    output = await mirror.run(
        "log",
        "--no-merges",
        "--no-renames",
        "--numstat",
        "--format=",
        "--end-of-options",
        tip,
        f"^{since}",
        f"^{await mirror.resolve(base)}",
        "--",
    )
    counts = [line.split("\t", 2)[:2] for line in output.text.splitlines() if line]
    # Git prints a dash for the line counts of binary files.
    return sum(int(count) for pair in counts for count in pair if count.isdecimal())
