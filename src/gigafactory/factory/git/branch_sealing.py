"""Seals the branches of earlier runs, so that a run that lost its lease cannot push any more.

A run publishes by moving the result branch and its own work-in-progress branch in one atomic push.
Once a successor has sealed the latter, that push fails as a whole at the remote, however late.
"""

from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.git.commits import make_commit, run_trailers
from gigafactory.factory.git.errors import RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import push, remote_branches

TRIES = 5


async def seal_earlier_branches(mirror: Mirror, job: Assignment) -> None:
    """Add a commit to the branches of all earlier runs of a job; none of their work is lost.

    Raises GitFailed.
    """
    if job.epoch <= 1:
        return
    for branch, commit in (await remote_branches(mirror, f"aq/wip/{job.job_id}/*")).items():
        epoch = branch.rpartition("/")[2]
        if epoch.isdecimal() and int(epoch) < job.epoch:
            await _seal(mirror, job, branch, commit)


async def _seal(mirror: Mirror, job: Assignment, branch: str, commit: str) -> None:
    trailers = run_trailers(job=job.job_id, run=job.run_id, engine=job.engine, epoch=job.epoch)
    for left in range(TRIES - 1, -1, -1):
        if not await mirror.has_commit(commit):
            await mirror.fetch_branch(branch)
        tree = await mirror.tree(commit)
        sealing_commit = await make_commit(mirror, tree, [commit], "Taken over", trailers)
        try:
            await push(mirror, sealing_commit, branch, expect=commit)
        except RefMoved as moved:
            # The earlier run is still active and saves its work: seal that too.
            if moved.now is None:
                return
            if not left:
                raise
            commit = moved.now
        else:
            return
