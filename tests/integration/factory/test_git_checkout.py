"""Shipping into a repo that a person has checked out on the same machine."""

from pathlib import Path

import pytest

from gigafactory.factory.addresses import Allowed, clone_address
from gigafactory.factory.commits import make_commit
from gigafactory.factory.git import Git
from gigafactory.factory.git_failures import GitFailed
from gigafactory.factory.mirror import Mirrors
from gigafactory.factory.pushing import push
from tests.integration.factory.git_world import World, plain_git, write


async def test_a_checkout_of_a_person_follows_and_is_left_alone_when_it_was_changed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.remote.commit({"README.md": "Notes.\n"})
    theirs = tmp_path / "theirs"
    plain_git(tmp_path, "clone", "-q", str(world.remote.path), str(theirs))
    git = Git(local=True)
    address = clone_address(str(theirs), Allowed(folders=(str(tmp_path),)))
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
