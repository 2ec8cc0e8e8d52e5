"""Ships to a plain git remote, without pull requests: merges the branch and pushes."""

from gigafactory.domain.job.job import Checkpoint, Result
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.diff import compare
from gigafactory.factory.git.merge import MergeConflict, Merged, merge
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.phases.human_edits import find_human_edits, return_for_review
from gigafactory.factory.phases.scope import check_shipped_commit
from gigafactory.factory.reporting.lease_check import confirm_lease
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.in_place import update_checkout


async def ship_to_plain_remote(
    run: ActiveRun, address: RemoteAddress, work: Checkpoint
) -> RunOutcome | None:
    """Merge the commit into the base once, under a confirmed lease.

    Raises GitFailed.
    """
    manifest = run.assignment.manifest
    if manifest.ship == "pr":
        reason = (
            f"{address.name} is on a plain git remote, which has no pull requests: let the job"
            " ship by merge, or name the forge of its host in factory.forges"
        )
        return RunOutcome(result=Result.SETUP_FAILED, reason=reason)
    mirror = await run.equipment.mirrors.open(address)
    base = manifest.base or await mirror.default_branch()
    commit = work.commit
    in_place = manifest.cwd is not None
    if not in_place:
        if (edits := await find_human_edits(mirror, base, work)) is not None:
            return await return_for_review(run, mirror, base, edits)
        run.findings.edited_lines = 0
    if not await mirror.has_commit(commit):
        await mirror.fetch_branch(work.branch)
    tip = await mirror.resolve(base)
    fork = (await mirror.run("merge-base", tip, commit, codes=(0, 1))).text.strip() or tip
    if (
        violation := await check_shipped_commit(run, await compare(mirror, fork, commit))
    ) is not None:
        return violation
    run.reporter.report(run.report(note=f"merges {commit[:12]} into {base}"))
    style = manifest.merge_style or "merge"
    message = f"{run.assignment.title}\n"
    done = await merge(
        *(mirror, base, commit, style, message),
        still_ours=lambda: confirm_lease(run.reporter),
        in_place=in_place,
    )
    if in_place and isinstance(done, Merged):
        await update_checkout(mirror, base, done.commit)
    match done:
        case None:
            run.stop_fenced()
            return run.stopped_outcome()
        case Merged(commit=landed):
            run.log_line(f"{commit[:12]} is in {base} as {landed[:12]}")
            return None
        case MergeConflict(reason=why, files=files):
            file_list = f" ({', '.join(files[:5])})" if files else ""
            reason = (
                f"it cannot be merged into {base}: {why}{file_list}; requeue it, or merge by hand"
            )
            return RunOutcome(result=Result.MERGE_CONFLICT, reason=reason)
