"""Ship phase: delivers the approved commit into the repo, exactly once."""

from msgspec.structs import replace

from gigafactory.domain.job.job import Checkpoint
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.phases.human_edits import HumanEdits, find_human_edits, return_for_review
from gigafactory.factory.phases.ship_plain import ship_to_plain_remote
from gigafactory.factory.phases.ship_pull_request import PullRequestShipping
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.in_place import repo_address


async def ship(run: ActiveRun) -> RunOutcome | None:
    """Ship the approved commit, through the forge of the repo if it has one."""
    manifest, checkpoint = run.assignment.manifest, run.assignment.checkpoint
    address = repo_address(run)
    if manifest.ship == "none" or address is None or checkpoint is None:
        run.log_line("nothing to ship: no repo or no commit")
        return None
    at = run.equipment.forges.forge_for(address)
    if at is None:
        return await ship_to_plain_remote(run, address, checkpoint)
    async with at as forge:
        branch, commit = checkpoint.branch, checkpoint.commit
        work = PullRequestShipping(run, forge, branch=branch, base=manifest.base, commit=commit)
        outcome = await work.ship()
    if work.newer_commit is not None:
        return await _record_human_edits(run, address, checkpoint, work, outcome)
    if outcome is None:
        run.findings.edited_lines = 0
    return outcome


async def _record_human_edits(
    run: ActiveRun,
    address: RemoteAddress,
    ours: Checkpoint,
    work: PullRequestShipping,
    outcome: RunOutcome | None,
) -> RunOutcome | None:
    """Count what people added to the pull request; unmerged additions need another decision.

    Nothing is counted if the repo cannot be reached, because only the forge knows the commits then.
    """
    edits = HumanEdits(work.newer_commit or ours.commit, None)
    try:
        mirror = await run.equipment.mirrors.open(address)
        edits = await find_human_edits(mirror, work.base, ours) or edits
        if outcome is not None:
            return await return_for_review(run, mirror, work.base, edits)
    except GitFailed as trouble:
        run.log_line(f"cannot count the lines that people added: {trouble}")
        if outcome is not None:
            run.findings.checkpoint = replace(ours, commit=edits.commit)
    run.findings.edited_lines = edits.lines
    return outcome
