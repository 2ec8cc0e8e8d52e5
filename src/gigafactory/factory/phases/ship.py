"""Ship: what was decided on goes into the repo, once; a successor looks before it does it again."""

from msgspec.structs import replace

from gigafactory.domain.job.job import Checkpoint
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.remote_url import Address
from gigafactory.factory.phases.human_edits import Edits, edits, handed_to_people
from gigafactory.factory.phases.ship_plain import ship_plainly
from gigafactory.factory.phases.ship_pull_request import Shipping
from gigafactory.factory.run.in_place import repo_of
from gigafactory.factory.run.run import Run


async def ship(run: Run) -> RunOutcome | None:
    """Deliver the commit that people looked at, through the forge of the repo if it has one."""
    manifest, checkpoint = run.assignment.manifest, run.assignment.checkpoint
    address = repo_of(run)
    if manifest.ship == "none" or address is None or checkpoint is None:
        run.tell("there is nothing to ship into a repo")
        return None
    at = run.equipment.forges.of(address)
    if at is None:
        return await ship_plainly(run, address, checkpoint)
    async with at as forge:
        branch, commit = checkpoint.branch, checkpoint.commit
        work = Shipping(run, forge, branch=branch, base=manifest.base, commit=commit)
        outcome = await work.ship()
    if work.newer is not None:
        return await _went_on(run, address, checkpoint, work, outcome)
    if outcome is None:
        run.findings.edited_lines = 0
    return outcome


async def _went_on(
    run: Run, address: Address, ours: Checkpoint, work: Shipping, outcome: RunOutcome | None
) -> RunOutcome | None:
    """Count what people added to the pull request; what they have not merged is theirs to decide.

    The forge alone knows of it where the repo cannot be reached: then nothing is counted.
    """
    found = Edits(work.newer or ours.commit, None)
    try:
        mirror = await run.equipment.mirrors.open(address)
        found = await edits(mirror, work.base, ours) or found
        if outcome is not None:
            return await handed_to_people(run, mirror, work.base, found)
    except GitFailed as trouble:
        run.tell(f"what people added cannot be counted: {trouble}")
        if outcome is not None:
            run.findings.checkpoint = replace(ours, commit=found.commit)
    run.findings.edited_lines = found.lines
    return outcome
