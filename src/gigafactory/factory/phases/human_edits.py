"""What people did to the work between its hand-in and its ship: commits on its branch.

Only what somebody has decided on is shipped. So work that goes on after the decision is neither
shipped unseen nor left behind unsaid: the job stands on the newer commit, and is decided on anew.
"""

import msgspec

from gigafactory.domain.job.job import Checkpoint, Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.diff import changes
from gigafactory.factory.git.errors import Missing
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import remote_branches
from gigafactory.factory.phases.diff import upload_diff
from gigafactory.factory.phases.scope import record_diff
from gigafactory.factory.run.active_run import ActiveRun


class HumanEdits(msgspec.Struct, frozen=True):
    """The newer commit of the branch; `lines` is None where it does not build on ours."""

    commit: str
    lines: int | None


async def find_human_edits(mirror: Mirror, base: str, work: Checkpoint) -> HumanEdits | None:
    """What people added to the branch of this work; None while it stands where it did.

    Raises GitFailed.
    """
    tip = (await remote_branches(mirror, work.branch)).get(work.branch)
    if tip is None or tip == work.commit:
        return None
    try:
        tip = await mirror.fetch_branch(work.branch)
    except Missing:
        return None
    if await mirror.contains(work.commit, tip):
        # Somebody took the branch back; nothing new is on it.
        return None
    lines = None
    if await mirror.contains(tip, work.commit):
        lines = await _count_lines(mirror, base, work.commit, tip)
    return HumanEdits(tip, lines)


async def return_for_review(
    run: ActiveRun, mirror: Mirror, base: str, found: HumanEdits
) -> RunOutcome:
    """Have the job stand on what people made of it, with its diff, for them to decide on.

    Raises GitFailed.
    """
    work = run.assignment.checkpoint
    assert work is not None
    newer = msgspec.structs.replace(work, commit=found.commit)
    run.findings.checkpoint = newer
    run.findings.edited_lines = found.lines
    tip = await mirror.resolve(base)
    fork = (await mirror.run("merge-base", tip, newer.commit, codes=(0, 1))).text.strip() or tip
    record_diff(run, await changes(mirror, fork, newer.commit))
    await upload_diff(run, mirror, fork, newer.commit)
    counted = "" if found.lines is None else f" ({found.lines} lines)"
    reason = (
        f"people went on at {newer.branch}: it is at {newer.commit[:12]}{counted}, and"
        f" {work.commit[:12]} was decided on; look at the newer one, and ship it then"
    )
    return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)


async def _count_lines(mirror: Mirror, base: str, since: str, tip: str) -> int:
    """Lines that the newer commits change, without those that came in from the base."""
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
    # A file that is no text has a dash for a count.
    return sum(int(count) for pair in counts for count in pair if count.isdecimal())
