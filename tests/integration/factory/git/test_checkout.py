"""Shipping into a local repo that a person has checked out."""

import asyncio
from pathlib import Path

import pytest

from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.git.commits import make_commit
from gigafactory.factory.git.errors import GitFailed
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.merge import MergeConflict, Merged, merge
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.push import push
from gigafactory.factory.git.remote_url import AllowedRemotes, parse_address
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import GitHarness, plain_git, write


async def test_clean_checkout_follows_a_ship_and_a_changed_one_blocks_it(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"README.md": "Notes.\n"})
    theirs = tmp_path / "theirs"
    plain_git(tmp_path, "clone", "-q", str(world.remote.path), str(theirs))
    git = Git(local=True)
    address = parse_address(str(theirs), AllowedRemotes(folders=AllowedFolders(roots=(tmp_path,))))
    mirror = await Mirrors(tmp_path / "more-mirrors", git).open(address)
    base = await mirror.resolve("main")
    tree = await mirror.tree(base)
    new = await make_commit(mirror, tree, [base], "next\n", {})
    await push(mirror, new, "main", expect=base, base="main")
    assert plain_git(theirs, "rev-parse", "HEAD") == new
    assert plain_git(theirs, "status", "--porcelain") == ""
    write(theirs, {"README.md": "being edited\n"})
    later = await make_commit(mirror, await mirror.tree(new), [new], "later\n", {})
    with pytest.raises(GitFailed):
        await push(mirror, later, "main", expect=new, base="main")
    assert plain_git(theirs, "rev-parse", "HEAD") == new
    assert plain_git(theirs, "status", "--porcelain") == " M README.md"


async def test_concurrent_ships_into_one_checkout_wait_for_each_other(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"README.md": "Notes.\n"})
    theirs = tmp_path / "theirs"
    plain_git(tmp_path, "clone", "-q", str(world.remote.path), str(theirs))
    address = parse_address(str(theirs), AllowedRemotes(folders=AllowedFolders(roots=(tmp_path,))))

    async def shipped(number: int) -> Merged | MergeConflict | None:
        mirrors = Mirrors(tmp_path / f"machine-{number}", Git(local=True))
        mirror = await mirrors.open(address)
        base = await mirror.resolve("main")
        worktree = await Worktree.add(mirror, tmp_path / f"work-{number}", base)
        write(worktree.path, {f"{number}.txt": f"{number}\n"})
        commit = (await worktree.snapshot(base)).commit
        assert commit is not None
        await worktree.remove()
        return await merge(mirror, "main", commit, "merge", f"Merge {number}", tries_max=20)

    found = await asyncio.gather(*map(shipped, range(8)), return_exceptions=True)
    assert all(isinstance(each, Merged) for each in found)
    assert plain_git(theirs, "status", "--porcelain") == ""
    assert {f"{number}.txt" for number in range(8)} <= {each.name for each in theirs.iterdir()}
