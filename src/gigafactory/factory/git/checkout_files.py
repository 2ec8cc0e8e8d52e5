"""Updates the files of a person's checkout when a job ships into the branch that it shows.

It does what `receive.denyCurrentBranch = updateInstead` does, with the mirror's configuration
instead of the checkout's: no filter, hook or monitor of the checkout runs.
"""

from gigafactory.factory.git.errors import GitFailed, PushDenied
from gigafactory.factory.git.git import GitLocation
from gigafactory.factory.git.local_repo import LocalRepo
from gigafactory.factory.git.mirror import Mirror

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


async def update_files(mirror: Mirror, repo: LocalRepo, old: str | None, new: str) -> None:
    """Update the files and the index of a checkout from one commit to another.

    Succeeds if they are there already. Raises PushDenied if anything is changed or in the way.
    """
    place = _location(mirror, repo)
    await mirror.run(
        *("update-index", "-q", "--ignore-submodules", "--refresh"), place=place, codes=(0, 1)
    )
    if await _differs(mirror, place, "diff-files", "--"):
        raise _denied("the checkout has changes that are not committed")
    # A push that was interrupted has left the new files.
    if not await _differs(mirror, place, "diff-index", "--cached", new, "--"):
        return
    if await _differs(mirror, place, "diff-index", "--cached", old or _EMPTY_TREE, "--"):
        raise _denied("the checkout has staged changes")
    try:
        await mirror.run("read-tree", "-u", "-m", new, place=place)
    except GitFailed as failed:
        if type(failed) is not GitFailed:
            raise
        raise _denied(f"the files of the checkout cannot be updated: {failed.stderr}") from failed


async def update_index(mirror: Mirror, repo: LocalRepo, commit: str) -> None:
    """Update only the index of a checkout to a commit: its files have the content already.

    Raises GitFailed.
    """
    place = _location(mirror, repo)
    await mirror.run("read-tree", "--reset", commit, place=place)
    await mirror.run(
        *("update-index", "-q", "--ignore-submodules", "--refresh"), place=place, codes=(0, 1)
    )


async def _differs(mirror: Mirror, place: GitLocation, command: str, *rest: str) -> bool:
    asked = (command, "--quiet", "--ignore-submodules", *rest)
    return (await mirror.run(*asked, place=place, codes=(0, 1))).code == 1


def _location(mirror: Mirror, repo: LocalRepo) -> GitLocation:
    assert repo.work_tree is not None, "only a checkout has files"
    return GitLocation(mirror.folder, repo.work_tree, repo.git_dir / "index")


def _denied(why: str) -> PushDenied:
    return PushDenied(("push",), 1, f"!\t[remote rejected] {why}")
