"""Worktrees: one per job, created from a commit, isolated, removed without a trace."""

from pathlib import Path

import pytest

from gigafactory.factory.git.errors import GitNotFound
from gigafactory.factory.git.worktree import Worktree, WorktreeTaken, prune_worktrees
from tests.support.factory.git_repo import GitHarness, plain_git, write


async def test_worktree_has_the_files_of_its_commit_and_a_detached_head(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree({"a.txt": "one\n", "src/b.txt": "two\n"})
    assert (worktree.path / "src/b.txt").read_text() == "two\n"
    assert plain_git(worktree.path, "rev-parse", "HEAD") == worktree.commit
    assert plain_git(worktree.path, "branch", "--show-current") == ""
    assert plain_git(worktree.path, "status", "--porcelain") == ""


async def test_agent_sees_branches_and_tags_but_no_work_of_other_jobs(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "one\n"})
    world.remote.commit({"a.txt": "wip\n"}, branch="aq/wip/other/1")
    plain_git(world.remote.path, "tag", "v1", commit)
    mirror = await world.mirror()
    await mirror.fetch_branch("aq/wip/other/1")
    worktree = await Worktree.add(mirror, tmp_path / "job", commit)
    refs = plain_git(worktree.path, "for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/remotes/origin/main", "refs/tags/v1"]
    assert plain_git(worktree.path, "describe", "--tags") == "v1"


async def test_worktrees_of_one_repo_are_isolated_from_each_other(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    one = await world.worktree()
    two = await Worktree.add(one.mirror, tmp_path / "two", one.commit)
    for worktree in (one, two):
        plain_git(worktree.path, "config", "user.name", worktree.path.name)
        plain_git(worktree.path, "checkout", "-q", "-b", "fix")
        write(worktree.path, {"a.txt": f"{worktree.path.name}\n"})
    plain_git(one.path, "stash")
    assert plain_git(two.path, "stash", "list") == ""
    plain_git(two.path, "commit", "-q", "-a", "-m", "mine")
    plain_git(two.path, "gc", "-q", "--prune=now")
    assert plain_git(one.path, "log", "--format=%s", "-1", "fix") == "by a person"
    assert plain_git(one.path, "config", "user.name") == one.path.name
    assert (one.path / "a.txt").read_text() == "one\n"


async def test_add_rejects_an_existing_path_and_leaves_it_unchanged(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree()
    unsaved = tmp_path / "unsaved"
    write(unsaved, {"work.txt": "of days"})
    link = tmp_path / "link"
    link.symlink_to(unsaved)
    for path in (unsaved, link, unsaved / "work.txt"):
        with pytest.raises(WorktreeTaken, match="already exists"):
            await Worktree.add(worktree.mirror, path, worktree.commit)
    assert (unsaved / "work.txt").read_text() == "of days"


async def test_worktree_in_use_cannot_be_added_opened_or_pruned(
    tmp_path: Path,
) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    with pytest.raises(WorktreeTaken, match="is in use by a run"):
        await Worktree.add(worktree.mirror, worktree.path, worktree.commit)
    with pytest.raises(WorktreeTaken):
        Worktree.open(worktree.mirror, worktree.path)
    assert prune_worktrees(worktree.mirror) == []
    assert (worktree.path / "a.txt").exists()


async def test_reopened_worktree_still_has_its_unsaved_work(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"new.txt": "unsaved"})
    worktree.close()
    again = Worktree.open(worktree.mirror, worktree.path)
    assert again is not None
    assert again.commit == worktree.commit
    assert (await again.snapshot(again.commit)).commit is not None


async def test_open_returns_none_where_no_worktree_was_added(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    assert Worktree.open(worktree.mirror, tmp_path / "elsewhere") is None


async def test_removed_worktree_leaves_nothing_and_frees_its_path(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"deep/er/x": "y"})
    (worktree.path / "out").symlink_to(tmp_path / "server")
    (worktree.path / "deep/er").chmod(0o500)
    (worktree.path / "deep").chmod(0o000)
    await worktree.remove()
    assert not worktree.path.exists()
    assert list(worktree.mirror.worktrees.iterdir()) == []
    assert (tmp_path / "server" / "notes.git").exists()
    again = await Worktree.add(worktree.mirror, worktree.path, worktree.commit)
    assert (again.path / "a.txt").exists()


async def test_worktree_replaced_by_a_symlink_is_removed_as_a_symlink(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    worktree.path.rename(tmp_path / "moved")
    write(tmp_path / "precious", {"x": "y"})
    worktree.path.symlink_to(tmp_path / "precious")
    await worktree.remove()
    assert (tmp_path / "precious/x").exists()


async def test_prune_removes_registrations_of_deleted_worktrees(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    kept = await Worktree.add(worktree.mirror, tmp_path / "kept", worktree.commit)
    for one in (worktree, kept):
        one.close()
    worktree.path.rename(tmp_path / "elsewhere")
    assert prune_worktrees(worktree.mirror) == [worktree.path]
    assert prune_worktrees(worktree.mirror) == []


async def test_add_of_a_missing_commit_leaves_no_worktree(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    mirror = await world.mirror()
    path = tmp_path / "job"
    with pytest.raises(GitNotFound):
        await Worktree.add(mirror, path, "1" * 40)
    assert not path.exists()
    assert prune_worktrees(mirror) == []
