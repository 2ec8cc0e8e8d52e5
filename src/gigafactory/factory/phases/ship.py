"""Ship: what was decided on goes into the repo, once; a successor looks before it does it again."""

from gigafactory.factory.assignment import Outcome
from gigafactory.factory.forges.plain import ship_plainly
from gigafactory.factory.forges.shipping import Shipping
from gigafactory.factory.run import Run


async def ship(run: Run) -> Outcome | None:
    """Deliver the commit that people looked at, through the forge of the repo if it has one."""
    manifest, checkpoint = run.assignment.manifest, run.assignment.checkpoint
    if manifest.ship == "none" or manifest.repo is None or checkpoint is None:
        run.tell("there is nothing to ship into a repo")
        return None
    address = run.equipment.repos.address(manifest.repo)
    at = run.equipment.forges.of(address)
    if at is None:
        return await ship_plainly(run, address, checkpoint)
    async with at as forge:
        branch, commit = checkpoint.branch, checkpoint.commit
        work = Shipping(run, forge, branch=branch, base=manifest.base, commit=commit)
        return await work.ship()
