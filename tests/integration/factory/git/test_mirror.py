"""Mirrors: one per repo, created on first use, fetched safely, with clear errors."""

import asyncio
from pathlib import Path

import pytest

from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git.errors import (
    EmptyRepo,
    GitNotFound,
    NoDefaultBranch,
    RemoteUnavailable,
)
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.remote_url import AllowedRemotes, parse_address
from tests.support.factory.git_repo import GitHarness, plain_git


async def test_mirror_is_created_on_first_open_and_fetched_on_the_next(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    first = world.remote.commit({"a.txt": "one"})
    mirror = await world.mirror()
    assert await mirror.resolve("main") == first
    second = world.remote.commit({"a.txt": "two"})
    again = await world.mirror()
    assert again.folder == mirror.folder
    assert await again.resolve("main") == second


async def test_opening_a_mirror_without_a_fetch_does_not_contact_the_remote(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "one"})
    await world.mirror()
    world.remote.path.rename(tmp_path / "away")
    mirror = await world.mirrors.open(world.address, fetch=False)
    assert await mirror.has_commit(commit)


async def test_tags_branches_and_commits_are_resolved(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "one"}, branch="release/2.1")
    world.remote.commit({"a.txt": "two"})
    plain_git(world.remote.path, "-c", "user.name=p", "-c", "user.email=p@example.com",
              "tag", "-a", "-m", "x", "v1", commit)  # fmt: skip
    mirror = await world.mirror()
    assert [await mirror.resolve(name) for name in ("release/2.1", "v1", commit)] == [commit] * 3


@pytest.mark.parametrize("name", ["nothing", "0" * 40, "--upload-pack=x", "a..b", "HEAD^", "-x"])
async def test_invalid_or_unknown_ref_raises_not_found(tmp_path: Path, name: str) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    mirror = await world.mirror()
    with pytest.raises(GitNotFound):
        await mirror.resolve(name)
    with pytest.raises(GitNotFound):
        await mirror.fetch_branch(name)
    assert not await mirror.has_commit(name)


async def test_branch_deleted_at_the_remote_is_deleted_by_a_fetch(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    world.remote.commit({"b.txt": "two"}, branch="old")
    mirror = await world.mirror()
    plain_git(world.remote.path, "branch", "-D", "old")
    await mirror.fetch()
    with pytest.raises(GitNotFound, match="has no branch or tag 'old'"):
        await mirror.resolve("old")


async def test_work_in_progress_is_fetched_by_name_only(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    commit = world.remote.commit({"b.txt": "two"}, branch="aq/wip/job/3")
    mirror = await world.mirror()
    assert not await mirror.has_commit(commit)
    assert await mirror.fetch_branch("aq/wip/job/3") == commit
    await mirror.fetch()
    assert await mirror.resolve("aq/wip/job/3") == commit


async def test_new_branch_replaces_a_stale_one_with_a_conflicting_name(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    world.remote.commit({"b.txt": "two"}, branch="topic")
    mirror = await world.mirror()
    plain_git(world.remote.path, "branch", "-D", "topic")
    commit = world.remote.commit({"b.txt": "three"}, branch="topic/next")
    assert await mirror.fetch_branch("topic/next") == commit


async def test_empty_repo_raises_an_error_that_asks_for_a_first_commit(tmp_path: Path) -> None:
    mirror = await GitHarness(tmp_path).mirror()
    for asked in (mirror.default_branch(), mirror.resolve("main")):
        with pytest.raises(EmptyRepo, match="notes has no commit yet; push a first one"):
            await asked


async def test_default_branch_follows_the_head_of_the_remote(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    world.remote.commit({"a.txt": "two"}, branch="develop")
    mirror = await world.mirror()
    assert await mirror.default_branch() == "main"
    plain_git(world.remote.path, "symbolic-ref", "HEAD", "refs/heads/develop")
    assert await mirror.default_branch() == "develop"


async def test_detached_head_falls_back_to_main_or_raises(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "one"})
    plain_git(world.remote.path, "update-ref", "--no-deref", "HEAD", commit)
    mirror = await world.mirror()
    assert await mirror.default_branch() == "main"
    world.remote.commit({"a.txt": "two"}, branch="develop")
    assert await mirror.default_branch() == "main"
    world.remote.commit({"a.txt": "two"}, branch="topic")
    plain_git(world.remote.path, "branch", "-D", "main")
    with pytest.raises(NoDefaultBranch, match="name one as `base`"):
        await mirror.default_branch()


async def test_only_branch_is_the_default_when_head_is_unborn(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    plain_git(world.remote.path, "branch", "-m", "main", "work")
    plain_git(world.remote.path, "symbolic-ref", "HEAD", "refs/heads/master")
    assert await (await world.mirror()).default_branch() == "work"


async def test_concurrent_opens_share_one_mirror(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "one"})
    # Each `Mirrors` stands for one process: they share the folder and nothing else.
    others = [Mirrors(world.machine / "mirrors", Git(local=True)) for _ in range(4)]
    mirrors = await asyncio.gather(*(other.open(world.address) for other in others))
    assert {mirror.folder for mirror in mirrors} == {mirrors[0].folder}
    assert [await mirror.resolve("main") for mirror in mirrors] == [commit] * 4


async def test_fetch_waits_for_the_mirror_lock(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    mirror = await world.mirror()
    lock = FileLock.try_acquire(mirror.folder.with_suffix(".lock"))
    assert lock is not None
    before = world.git.runs
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(mirror.fetch(), 0.1)
    assert world.git.runs == before
    lock.release()
    await mirror.fetch()


async def test_missing_repo_is_not_found_and_unreachable_host_is_unavailable(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    allowed = AllowedRemotes(
        folders=AllowedFolders(roots=(tmp_path,)), hosts=("127.0.0.1",), plain=True
    )
    nowhere = parse_address(f"{tmp_path}/nothing.git", allowed)
    with pytest.raises(GitNotFound):
        await world.mirrors.open(nowhere)
    mirrors = Mirrors(tmp_path / "mirrors", Git(plain=True, environ={}))
    # Nothing listens on the discard port of the loopback interface.
    with pytest.raises(RemoteUnavailable):
        await mirrors.open(parse_address("http://127.0.0.1:9/x/notes.git", allowed))


async def test_local_repo_requires_a_git_that_allows_the_file_transport(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "one"})
    mirrors = Mirrors(tmp_path / "strict", Git())
    with pytest.raises(Exception, match="transport 'file' not allowed"):
        await mirrors.open(world.address)
