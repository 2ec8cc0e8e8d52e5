"""A run that follows another seals its branch: whoever wakes up late finds every ref moved on.

What a run delivers moves the result's branch and its own branch of work in progress in one step.
With the latter sealed by its successor that step fails whole, at the remote, whenever it comes.
"""

from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.git.commits import make_commit, run_trailers
from gigafactory.factory.git.errors import RefMoved
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.push import push, remote_branches

TRIES = 5


async def seal_earlier(mirror: Mirror, job: Assignment) -> None:
    """Move on the branches of all earlier runs of a job; nothing of what they hold is lost.

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
        if not await mirror.has(commit):
            await mirror.fetch_branch(branch)
        tree = await mirror.tree(commit)
        sealed = await make_commit(mirror, tree, [commit], "Taken over", trailers)
        try:
            await push(mirror, sealed, branch, expect=commit)
        except RefMoved as moved:
            # The earlier run is awake and still saves its work: that is sealed too.
            if moved.now is None:
                return
            if not left:
                raise
            commit = moved.now
        else:
            return
