"""Acceptance: a look at what the children of a composite have shipped; nothing goes out."""

from gigafactory.factory.assignment import Outcome
from gigafactory.factory.phases.place import plain_folder, when_free
from gigafactory.factory.run import Run
from gigafactory.factory.workplaces import RepoWorkplace
from gigafactory.factory.worktree import Worktree


async def look(run: Run) -> Outcome | None:
    """Make a worktree of the base as it is now; without a repo, an empty folder.

    Raises NoSandbox for a job that cannot be confined here as it asks.
    """
    manifest = run.assignment.manifest
    run.equipment.sandbox.held_to(manifest.sandbox, yolo=bool(manifest.yolo))
    run.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = run.equipment.places.worktree(run.assignment.job_id)
    if manifest.repo is None:
        run.workplace = await when_free(plain_folder, path)
        return None
    mirror = await run.equipment.mirrors.open(run.equipment.repos.address(manifest.repo))
    branch = manifest.base or await mirror.default_branch()
    base = await mirror.resolve(branch)
    worktree = await when_free(Worktree.add, mirror, path, base)
    run.workplace = RepoWorkplace(
        worktree, run.assignment, base_branch=branch, base=base, elsewhere=base
    )
    run.tell(f"looks at {branch} ({base[:12]})")
    return None
