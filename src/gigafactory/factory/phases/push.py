"""Push phase: the result as one commit on its branch, pushed only while the lease is held."""

from gigafactory.domain.job.job import Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.forges.forge import ForgeRefused, ForgeUnavailable
from gigafactory.factory.forges.pull_request_text import KEPT, build_text, read_agent_text
from gigafactory.factory.git.diff import compare
from gigafactory.factory.git.errors import RefMoved
from gigafactory.factory.git.workspace import RepoWorkspace
from gigafactory.factory.phases.scope import check_pushed_commit
from gigafactory.factory.phases.ship_pull_request import PullRequestShipping
from gigafactory.factory.reporting.lease_check import confirm_lease
from gigafactory.factory.run import engine_home
from gigafactory.factory.run.active_run import ActiveRun

TRIES = 3


async def push_result(run: ActiveRun) -> RunOutcome | None:
    """Commit the work, push it under a confirmed lease, and open a pull request."""
    workplace = run.workspace
    if not isinstance(workplace, RepoWorkspace):
        return None
    commit = await workplace.result(f"{run.assignment.title}\n")
    if commit is None:
        if run.assignment.manifest.ship == "none":
            return None
        return RunOutcome(result=Result.NO_CHANGE, reason="the engine changed nothing")
    changes = await compare(workplace.mirror, workplace.base, commit)
    if (ended := await check_pushed_commit(run, changes)) is not None:
        return ended
    pushed = await _push(run, workplace, commit)
    if pushed is None:
        run.stop_fenced()
        return run.stopped_outcome()
    run.record_checkpoint(pushed, workplace.result_branch)
    run.log_line(f"pushed {pushed[:12]} to {workplace.result_branch}")
    return await _open_pull_request(run, workplace, pushed)


async def _push(run: ActiveRun, workplace: RepoWorkspace, commit: str) -> str | None:
    """Push the commit and return the new tip of the result branch; None if the lease is lost.

    Raises GitFailed.
    """
    for left in range(TRIES - 1, -1, -1):
        # Read before confirming the lease: if this process pauses in between, the push sees a moved
        # ref.
        before, epoch = await workplace.current_result()
        same = before is not None and await workplace.is_same_work(before, commit)
        if epoch > run.assignment.epoch or not await confirm_lease(run.reporter):
            return None
        if same:
            # An earlier run died between its push and its report.
            return before
        try:
            await workplace.publish(commit, before=before)
        except RefMoved:
            # Another factory holds the lease, or an earlier holder of it has just continued.
            if not left:
                raise
        else:
            return commit
    return None


async def _open_pull_request(
    run: ActiveRun, workplace: RepoWorkspace, commit: str
) -> RunOutcome | None:
    """Open a pull request if the forge has them; if that fails, shipping retries it."""
    at = run.equipment.forges.forge_for(workplace.mirror.address)
    if at is None or run.assignment.manifest.ship == "none":
        return None
    text = read_agent_text(workplace.path)
    # If the forge is unreachable now, shipping can still use the agent's description.
    engine_home.write_files(run.home, {KEPT: (text or "").encode()})
    words = build_text(
        text,
        title=run.assignment.title,
        body=run.assignment.body,
        secrets=run.equipment.secrets,
    )
    async with at as forge:
        work = PullRequestShipping(
            run,
            forge,
            branch=workplace.result_branch,
            base=workplace.base_branch,
            commit=commit,
        )
        try:
            proposed = await work.propose(words)
        except (ForgeUnavailable, ForgeRefused) as trouble:
            run.log_line(f"no pull request yet; shipping will open it: {trouble}")
            return None
    return proposed if isinstance(proposed, RunOutcome) else None
