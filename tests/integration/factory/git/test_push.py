"""Pushes move remote refs only from the expected commit, and only job branches."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gigafactory.factory.git.commits import make_commit, run_trailers
from gigafactory.factory.git.errors import GitNotFound, PushDenied, RefMoved
from gigafactory.factory.git.push import delete_branches, push, remote_branches, remote_commit
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import GitHarness, plain_git, tree, write

TRAILERS = run_trailers(job="job-1", run="job-1.2", engine="claude", epoch=7)


async def snapshots(worktree: Worktree, *contents: str) -> list[str]:
    """Take one snapshot per content, each on top of the previous one, and return the commits."""
    taken = [worktree.commit]
    for content in contents:
        write(worktree.path, {"work.txt": content})
        commit = (await worktree.snapshot(taken[-1])).commit
        assert commit is not None
        taken.append(commit)
    return taken[1:]


async def test_branch_is_created_moved_and_deleted(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    one, two = await snapshots(worktree, "1", "2")
    mirror = worktree.mirror
    await push(mirror, one, "aq/wip/job/1", expect=None)
    await push(mirror, two, "aq/wip/job/1", expect=one)
    assert await remote_commit(mirror, "aq/wip/job/1") == two
    assert await remote_branches(mirror, "aq/wip/*") == {"aq/wip/job/1": two}
    assert await delete_branches(mirror, {"aq/wip/job/1": two}) == {}
    assert await remote_commit(mirror, "aq/wip/job/1") is None
    assert await delete_branches(mirror, {"aq/wip/job/1": two}) == {}
    assert world.remote.branches() == ["main"]


async def test_another_machine_resumes_from_a_pushed_commit(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    [commit] = await snapshots(worktree, "half done")
    await push(worktree.mirror, commit, "aq/wip/job/1", expect=None)
    other = GitHarness(tmp_path, machine="another")
    mirror = await other.mirror()
    assert await mirror.fetch_branch("aq/wip/job/1") == commit
    resumed = await Worktree.add(mirror, tmp_path / "another" / "job", commit)
    assert (resumed.path / "work.txt").read_text() == "half done"


async def test_push_with_a_wrong_expected_commit_changes_nothing(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    one, two, three = await snapshots(worktree, "1", "2", "3")
    mirror = worktree.mirror
    await push(mirror, two, "aq/job/j", expect=None)
    for expect in (None, one, worktree.commit):
        with pytest.raises(RefMoved, match=f"but is {two}") as caught:
            await push(mirror, three, "aq/job/j", expect=expect)
        assert (caught.value.now, caught.value.expected) == (two, expect)
    with pytest.raises(RefMoved, match=r"expected to be 0000000.*, but is absent"):
        await push(mirror, three, "aq/job/other", expect="0" * 39 + "1")
    assert await delete_branches(mirror, {"aq/job/j": one}) == {
        "aq/job/j": f"it is now at {two[:12]}"
    }
    assert world.remote.commit_of("aq/job/j") == two


async def test_repeated_push_of_the_same_commit_succeeds(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    one, two = await snapshots(worktree, "1", "2")
    for _ in range(2):
        await push(worktree.mirror, one, "aq/job/j", expect=None)
    for _ in range(2):
        await push(worktree.mirror, two, "aq/job/j", expect=one)
    assert world.remote.commit_of("aq/job/j") == two


async def test_one_of_several_concurrent_pushes_wins(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    commits = await snapshots(worktree, "1", "2", "3")
    pushes = (push(worktree.mirror, commit, "aq/job/j", expect=None) for commit in commits)
    ended = await asyncio.gather(*pushes, return_exceptions=True)
    assert sorted(str(type(end).__name__) for end in ended) == ["NoneType", "RefMoved", "RefMoved"]
    assert world.remote.commit_of("aq/job/j") == commits[ended.index(None)]


@pytest.mark.parametrize("branch", ["main", "release/1", "aq/other/x", "aq/wip", "aq/jobs/x"])
async def test_push_outside_job_branches_is_denied(tmp_path: Path, branch: str) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    [commit] = await snapshots(worktree, "1")
    with pytest.raises(PushDenied, match=r"must not be pushed to: only aq/wip/\*, aq/job/\*"):
        await push(worktree.mirror, commit, branch, expect=worktree.commit)
    with pytest.raises(PushDenied):
        await push(worktree.mirror, commit, branch, expect=worktree.commit, base="develop")
    with pytest.raises(PushDenied):
        await delete_branches(worktree.mirror, {branch: worktree.commit})
    assert world.remote.commit_of("main") == worktree.commit


@pytest.mark.parametrize("commit", ["HEAD", "", "--force", ":main"])
async def test_push_of_an_abbreviated_or_symbolic_commit_is_denied(
    tmp_path: Path, commit: str
) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    with pytest.raises(PushDenied, match="is not a commit"):
        await push(worktree.mirror, commit, "aq/job/j", expect=None)


async def test_push_rejected_by_a_remote_hook_quotes_the_hook(tmp_path: Path) -> None:
    world = GitHarness(tmp_path, served=True)
    worktree = await world.worktree()
    [commit] = await snapshots(worktree, "1")
    hook = world.remote.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'policy says no' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushDenied, match="policy says no"):
        await push(worktree.mirror, commit, "aq/job/j", expect=None)


async def test_push_to_a_missing_remote_raises_not_found(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    [commit] = await snapshots(worktree, "1")
    world.remote.path.rename(tmp_path / "away")
    with pytest.raises(GitNotFound):
        await push(worktree.mirror, commit, "aq/job/j", expect=None)


async def test_result_is_one_commit_on_the_base_with_its_trailers(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    mirror = worktree.mirror
    *_, last = await snapshots(worktree, "1", "2")
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    words = "Fix the login\n\nAq-Job: forged\nIt works."
    result = (mirror, await mirror.tree(last), [worktree.commit], words, TRAILERS)
    commit = await make_commit(*result, at=noon)
    assert commit == await make_commit(*result, at=noon)
    assert tree(mirror, commit) == tree(mirror, last)
    assert plain_git(mirror.folder, "log", "-1", "--format=%P|%cI|%B", commit) == (
        f"{worktree.commit}|2026-01-02T12:00:00+00:00|Fix the login\n\nIt works.\n\n"
        "Aq-Job: job-1\nAq-Run: job-1.2\nAq-Epoch: 7\nAq-Engine: claude\n"
    )
    parsed = plain_git(
        mirror.folder, "log", "-1", "--format=%(trailers:key=Aq-Job,valueonly)", commit
    )
    assert parsed.strip() == "job-1"
