"""Ship: what was decided on goes into the repo, once; a successor looks before it does it again."""

from gigafactory.factory.assignment import Outcome
from gigafactory.factory.forges.plain import ship_plainly
from gigafactory.factory.forges.shipping import Shipping
from gigafactory.factory.in_place import repo_of
from gigafactory.factory.run import Run


async def ship(run: Run) -> Outcome | None:
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
        return await work.ship()
