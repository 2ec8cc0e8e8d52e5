"""Sealed branches: a late push of an earlier run fails as a whole."""

from pathlib import Path

import pytest

from gigafactory.domain.job.job import Step
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.git.branch_sealing import seal_earlier_branches
from gigafactory.factory.git.errors import AtomicPushUnsupported, PushDenied, RefMoved
from gigafactory.factory.git.push import RefUpdate, push, push_atomically
from gigafactory.factory.git.workspace import RepoWorkspace
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import GitHarness, plain_git, write

EARLIER, RESULT = "aq/wip/job-1/1", "aq/job/job-1"


def assignment(epoch: int) -> Assignment:
    return Assignment(
        job_id="job-1",
        name="hello",
        title="Say hello",
        run_id=f"job-1.{epoch}",
        epoch=epoch,
        step=Step.RUN,
        engine="claude",
        manifest=Manifest(),
        body="Say hello.",
    )


def workplace(worktree: Worktree, epoch: int = 1) -> RepoWorkspace:
    return RepoWorkspace(
        worktree, assignment(epoch), base_branch="main", base=worktree.commit, elsewhere=None
    )


async def delivering(world: GitHarness) -> tuple[RepoWorkspace, str]:
    """Return the workspace of a run with saved work and its result commit, not yet pushed."""
    place = workplace(await world.worktree())
    write(place.path, {"hello.txt": "hello\n"})
    await place.save()
    commit = await place.result("Say hello")
    assert commit is not None
    return place, commit


async def test_result_and_wip_branch_move_together(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    place, commit = await delivering(world)
    await place.publish(commit, before=None)
    assert world.remote.commit_of(RESULT) == commit
    assert world.remote.log(EARLIER)[:2] == ["Delivered", "Work in progress"]
    write(place.path, {"more.txt": "more\n"})
    await place.save()
    assert world.remote.text(EARLIER, "more.txt") == "more", "it can still save its work"


async def test_late_result_of_a_sealed_run_changes_nothing(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    place, commit = await delivering(world)
    saved = world.remote.commit_of(EARLIER)
    for _ in range(2):
        await seal_earlier_branches(place.mirror, assignment(2))
    before = plain_git(world.remote.path, "for-each-ref")
    with pytest.raises(RefMoved, match=EARLIER):
        await place.publish(commit, before=None)
    write(place.path, {"more.txt": "more\n"})
    with pytest.raises(RefMoved, match=EARLIER):
        await place.save()
    assert plain_git(world.remote.path, "for-each-ref") == before
    assert saved in plain_git(world.remote.path, "rev-list", EARLIER).split(), "nothing is lost"


async def test_only_earlier_runs_of_the_same_job_are_sealed(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    others = ("aq/wip/job-1/2", "aq/wip/job-1/3", "aq/wip/job-1/x", "aq/wip/job-2/1")
    for branch in others:
        await push(worktree.mirror, worktree.commit, branch, expect=None)
    await seal_earlier_branches(worktree.mirror, assignment(2))
    assert {world.remote.commit_of(branch) for branch in others} == {worktree.commit}


async def test_run_on_another_machine_seals_branches_it_never_fetched(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    place, commit = await delivering(world)
    await seal_earlier_branches(
        await GitHarness(tmp_path, machine="another").mirror(), assignment(2)
    )
    with pytest.raises(RefMoved):
        await place.publish(commit, before=None)


async def test_atomic_push_moves_all_branches_or_none(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    place, commit = await delivering(world)
    mirror = place.mirror
    await push(mirror, place.base, "aq/wip/j/1", expect=None)
    moves = (RefUpdate("aq/job/j", commit, None), RefUpdate("aq/wip/j/1", commit, "0" * 39 + "1"))
    with pytest.raises(RefMoved, match="aq/wip/j/1"):
        await push_atomically(mirror, *moves)
    with pytest.raises(PushDenied, match="must not be pushed to"):
        await push_atomically(mirror, moves[0], RefUpdate("main", commit, None))
    assert world.remote.commit_of("aq/job/j") is None


async def test_remote_without_atomic_push_gets_only_the_result(tmp_path: Path) -> None:
    world = GitHarness(tmp_path, served=True)
    place, commit = await delivering(world)
    plain_git(world.remote.path, "config", "receive.advertiseAtomic", "false")
    saved = world.remote.commit_of(EARLIER)
    with pytest.raises(AtomicPushUnsupported):
        await push_atomically(
            place.mirror, RefUpdate(RESULT, commit, None), RefUpdate(EARLIER, commit, saved)
        )
    await place.publish(commit, before=None)
    assert world.remote.commit_of(RESULT) == commit
    assert world.remote.commit_of(EARLIER) == saved
