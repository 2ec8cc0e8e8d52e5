"""The place: a worktree of the job's own, from its base or from where an earlier run stopped."""

from gigafactory.factory import live_runs
from gigafactory.factory.assignment import Outcome
from gigafactory.factory.git_failures import Missing
from gigafactory.factory.in_place import work_in
from gigafactory.factory.leavings import put_away
from gigafactory.factory.mirror import Mirror
from gigafactory.factory.run import Run
from gigafactory.factory.workplaces import PlainFolder, RepoWorkplace
from gigafactory.factory.worktree import Worktree


async def place(run: Run) -> Outcome | None:
    """Make the folder in which the engine will work, and save where it stands."""
    run.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = run.equipment.places.worktree(run.assignment.job_id)
    cwd, repo = run.assignment.manifest.cwd, run.assignment.manifest.repo
    if cwd is not None:
        run.workplace = await work_in(run, cwd)
        await run.save()
        return None
    if repo is None:
        run.workplace = PlainFolder(path)
        return None
    mirror = await run.equipment.mirrors.open(run.equipment.repos.address(repo))
    branch = run.assignment.manifest.base or await mirror.default_branch()
    base = await mirror.resolve(branch)
    start = await _start(run, mirror) or base
    if start != base:
        base = await _fork(mirror, base, start)
    await _clear_old(mirror, run)
    worktree = await Worktree.add(mirror, path, start)
    run.workplace = RepoWorkplace(
        worktree,
        run.assignment,
        base_branch=branch,
        base=base,
        secrets=run.equipment.secrets,
    )
    run.tell(f"works on {branch} ({base[:12]})" + (f" from {start[:12]}" if start != base else ""))
    await run.save()
    return None


async def _start(run: Run, mirror: Mirror) -> str | None:
    """The commit of the checkpoint, wherever it was made; None when there is none to be had."""
    checkpoint = run.assignment.checkpoint
    if checkpoint is None:
        return None
    if await mirror.has(checkpoint.commit):
        return checkpoint.commit
    try:
        await mirror.fetch_branch(checkpoint.branch)
    except Missing:
        run.tell(f"the checkpoint {checkpoint.branch} is gone; beginning anew")
        return None
    return checkpoint.commit if await mirror.has(checkpoint.commit) else None


async def _fork(mirror: Mirror, base: str, start: str) -> str:
    """Where the work left the base branch: what the base has got since is not its doing."""
    found = await mirror.run("merge-base", base, start, codes=(0, 1))
    return found.text.strip() or base


async def _clear_old(mirror: Mirror, run: Run) -> None:
    """Put away what an earlier run of this job could not save, and has left here."""
    places = run.equipment.places
    for earlier in live_runs.noted(places):
        if earlier.job_id == run.assignment.job_id and earlier.run_id != run.assignment.run_id:
            await put_away(places, earlier, mirror)


async def clear(run: Run, outcome: Outcome) -> bool:
    """Remove the place, unless there is work in it that is nowhere else; tells whether it did."""
    if run.workplace is None:
        return True
    if outcome.good or run.saved:
        await run.workplace.remove()
        return True
    run.workplace.close()
    return False
