"""Attacks of repos and agents on the factory's git; each one works on an unprotected git."""

import os
from pathlib import Path

import pytest

from gigafactory.factory.git.errors import GitFailed, GitNotFound
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.push import push, remote_commit
from gigafactory.factory.git.remote_url import RemoteAddress
from gigafactory.factory.git.safe_copy import SkipReason, copy_paths
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import GitHarness, blob, plain_git, planted_program, tree, write

SECRET = "the host's secret\n"


async def run_every_git_operation(worktree: Worktree, name: str) -> str:
    """Run every git operation of a run and return the pushed commit."""
    mirror = worktree.mirror
    write(worktree.path, {"by-the-agent.txt": f"{name}\n"})
    await mirror.fetch()
    snapshot = await worktree.snapshot(worktree.commit)
    assert snapshot.commit is not None
    await worktree.changes(worktree.commit)
    await push(mirror, snapshot.commit, f"aq/wip/{name}/1", expect=None)
    other = await Worktree.add(mirror, worktree.path.with_name(f"{name}-2"), snapshot.commit)
    await other.remove()
    return snapshot.commit


async def test_hooks_do_not_run(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    program, trace = planted_program(tmp_path, "hook")
    hooks = (
        "post-checkout",
        "pre-push",
        "reference-transaction",
        "post-index-change",
        "pre-commit",
    )
    own = Path(plain_git(worktree.path, "rev-parse", "--git-dir"))
    for folder in (own / "hooks", worktree.mirror.folder / "hooks", worktree.path / ".husky"):
        folder.mkdir()
        for name in hooks:
            (folder / name).symlink_to(program)
    for repo in (worktree.path, worktree.mirror.folder):
        plain_git(repo, "config", "core.hooksPath", str(worktree.path / ".husky"))
    plain_git(worktree.path, "checkout", "-q", "-b", "mine")
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    await run_every_git_operation(worktree, "hooks")
    assert not trace.exists()


async def test_fsmonitor_does_not_run(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    program, trace = planted_program(tmp_path, "monitor")
    for repo in (worktree.path, worktree.mirror.folder):
        plain_git(repo, "config", "core.fsmonitor", str(program))
    plain_git(worktree.path, "status", check=False)
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    await run_every_git_operation(worktree, "monitor")
    assert not trace.exists()


async def test_filters_do_not_run(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    worktree = await world.worktree({"a.txt": "1\n", ".gitattributes": "* filter=evil diff=evil\n"})
    program, trace = planted_program(tmp_path, "filter")
    for repo in (worktree.path, worktree.mirror.folder):
        for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"):
            plain_git(repo, "config", key, str(program))
        for key in ("diff.evil.textconv", "diff.evil.command", "diff.external"):
            plain_git(repo, "config", key, str(program))
    write(worktree.path, {"a.txt": "2\n"})
    plain_git(worktree.path, "add", "a.txt", check=False)
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    commit = await run_every_git_operation(worktree, "filter")
    assert not trace.exists()
    assert blob(worktree.mirror, commit, "a.txt") == "2"


async def test_git_config_included_from_the_worktree_is_not_read(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    program, trace = planted_program(tmp_path, "included")
    elsewhere = tmp_path / "server" / "stolen.git"
    plain_git(tmp_path, "init", "-q", "--bare", str(elsewhere))
    evil = (
        f"[core]\n\tfsmonitor = {program}\n\tsshCommand = {program}\n\tgitProxy = {program}\n"
        f"\tworktree = {tmp_path}\n\taskPass = {program}\n\teditor = {program}\n"
        f'[credential]\n\thelper = "!{program}"\n[uploadpack]\n\tpackObjectsHook = {program}\n'
        f'[url "{elsewhere}"]\n\tinsteadOf = {worktree.mirror.address.url}\n'
        f'[filter "evil"]\n\tclean = {program}\n[commit]\n\tgpgSign = true\n[gpg]\n'
        f"\tprogram = {program}\n"
    )
    write(worktree.path, {".evil": evil, ".gitattributes": "* filter=evil\n"})
    for repo in (worktree.path, worktree.mirror.folder):
        plain_git(repo, "config", "include.path", str(worktree.path / ".evil"))
    plain_git(worktree.path, "status", check=False)
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    commit = await run_every_git_operation(worktree, "included")
    assert not trace.exists()
    assert await remote_commit(worktree.mirror, "aq/wip/included/1") == commit
    assert plain_git(elsewhere, "for-each-ref") == ""


async def test_git_folder_planted_instead_of_the_gitdir_link_is_not_read(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    program, trace = planted_program(tmp_path, "planted")
    (worktree.path / ".git").unlink()
    plain_git(worktree.path, "init", "-q")
    plain_git(worktree.path, "config", "core.fsmonitor", str(program))
    plain_git(worktree.path, "status", check=False)
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    await run_every_git_operation(worktree, "planted")
    assert not trace.exists()


@pytest.mark.parametrize("url", ["ext::sh -c 'touch {trace}'", "fd::7", "--upload-pack={trace}"])
async def test_command_running_urls_are_rejected_even_when_trusted(
    tmp_path: Path, url: str
) -> None:
    trace = tmp_path / "trace"
    address = RemoteAddress(url=url.format(trace=trace), scheme="https", host="x", trusted=True)
    with pytest.raises(GitFailed):
        await Mirrors(tmp_path / "mirrors", Git(local=True, plain=True)).open(address)
    assert not trace.exists()


async def test_option_like_ref_names_are_rejected(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "1\n"})
    mirror = await world.mirror()
    program, trace = planted_program(tmp_path, "option")
    for name in (f"--upload-pack={program}", f"--receive-pack={program}", f"--exec={program}"):
        with pytest.raises(GitNotFound, match="is not a ref"):
            await mirror.fetch_branch(name)
        with pytest.raises(GitNotFound, match="is not a ref"):
            await push(mirror, commit, name, expect=None, base=name)
        with pytest.raises(GitNotFound, match="is not a ref"):
            await remote_commit(mirror, name)
    assert not trace.exists()


async def test_symlink_to_a_host_file_is_committed_as_a_symlink(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(tmp_path, {"secret": SECRET})
    (worktree.path / "link").symlink_to(tmp_path / "secret")
    (worktree.path / "a.txt").unlink()
    (worktree.path / "a.txt").symlink_to(tmp_path / "secret")
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    assert tree(worktree.mirror, commit) == {
        "a.txt": "120000",
        "link": "120000",
        "src/b.txt": "100644",
    }
    assert blob(worktree.mirror, commit, "a.txt") == str(tmp_path / "secret")


async def test_host_folder_is_not_read_through_a_symlink(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(tmp_path, {"host/b.txt": SECRET, "host/c.txt": SECRET})
    write(worktree.path, {"src/b.txt": None})
    (worktree.path / "src").rmdir()
    (worktree.path / "src").symlink_to(tmp_path / "host")
    (worktree.path / ".gitignore").symlink_to(tmp_path / "host/b.txt")
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    modes = {".gitignore": "120000", "a.txt": "100644", "src": "120000"}
    assert tree(worktree.mirror, commit) == modes


def test_folder_replaced_by_a_symlink_after_listing_is_not_followed(tmp_path: Path) -> None:
    worktree, staging = tmp_path / "worktree", tmp_path / "staging"
    for folder in (worktree, staging):
        folder.mkdir()
    write(tmp_path, {"host/file": SECRET})
    (worktree / "folder").symlink_to(tmp_path / "host")
    (worktree / "name").symlink_to(tmp_path / "host/file")
    os.mkfifo(worktree / "pipe")
    staged = copy_paths(worktree, [b"folder/file", b"folder", b"name", b"pipe"], staging)
    assert (staged.files, staged.gone) == ((), (b"folder/file",))
    assert [path for path, _ in staged.links] == [b"folder", b"name"]
    assert [left.why for left in staged.left_out] == [SkipReason.UNREADABLE]
    assert not any(path.is_file() and not path.is_symlink() for path in staging.iterdir())


def _trap(folder: Path, program: Path) -> None:
    """Create a repo that runs a program on `git status`."""
    folder.mkdir(parents=True, exist_ok=True)
    plain_git(folder, "init", "-q")
    write(folder, {"inside.txt": "x\n"})
    plain_git(folder, "add", "-A")
    plain_git(folder, "commit", "-q", "-m", "inside")
    plain_git(folder, "config", "core.fsmonitor", str(program))


async def test_a_nested_repo_is_left_out_and_runs_nothing(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    program, trace = planted_program(tmp_path, "nested")
    _trap(worktree.path / "nested", program)
    write(tmp_path, {"host/secret": SECRET})
    _trap(tmp_path / "host", program)
    write(worktree.path, {"pointer/.git": f"gitdir: {tmp_path}/host/.git\n", "pointer/f": "x\n"})
    commit = await run_every_git_operation(worktree, "nested")
    assert not trace.exists()
    assert sorted(tree(worktree.mirror, commit)) == ["a.txt", "by-the-agent.txt", "src/b.txt"]
    snapshot = await worktree.snapshot(worktree.commit)
    assert [(left.path, left.why) for left in snapshot.left_out] == [
        ("nested/", SkipReason.NESTED_REPO),
        ("pointer/", SkipReason.NESTED_REPO),
    ]


async def _with_submodule(world: GitHarness, tmp_path: Path) -> tuple[Mirror, str, str]:
    """Return the mirror, a commit with an empty submodule at `sub`, and the submodule's commit."""
    inner = tmp_path / "inner"
    inner.mkdir()
    plain_git(inner, "init", "-q")
    plain_git(inner, "commit", "-q", "--allow-empty", "-m", "inner")
    link = plain_git(inner, "rev-parse", "HEAD")
    world.remote.commit({"a.txt": "1\n"})
    bare = world.remote.path
    plain_git(bare, "read-tree", "main")
    plain_git(bare, "update-index", "--add", "--cacheinfo", f"160000,{link},sub")
    made = plain_git(bare, "commit-tree", "-m", "sub", "-p", "main", plain_git(bare, "write-tree"))
    plain_git(bare, "update-ref", "refs/heads/main", made)
    return await world.mirror(), made, link


async def test_submodule_keeps_its_commit_and_runs_nothing(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    mirror, commit, _ = await _with_submodule(world, tmp_path)
    worktree = await Worktree.add(mirror, tmp_path / "job", commit)
    assert (await worktree.snapshot(commit)).commit is None
    program, trace = planted_program(tmp_path, "submodule")
    _trap(worktree.path / "sub", program)
    write(worktree.path, {"sub/inside.txt": "changed\n", "a.txt": "2\n"})
    plain_git(worktree.path, "status", check=False)
    assert trace.exists(), "a git that trusts runs it"
    trace.unlink()
    pushed = await run_every_git_operation(worktree, "submodule")
    assert not trace.exists()
    modes = {"a.txt": "100644", "by-the-agent.txt": "100644", "sub": "160000"}
    assert tree(mirror, pushed) == modes
    snapshot = await worktree.snapshot(commit)
    assert [(left.path, left.why) for left in snapshot.left_out] == [("sub", SkipReason.SUBMODULE)]


async def test_submodule_removed_by_the_agent_is_removed(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    mirror, commit, _ = await _with_submodule(world, tmp_path)
    worktree = await Worktree.add(mirror, tmp_path / "job", commit)
    (worktree.path / "sub").rmdir()
    removed = (await worktree.snapshot(commit)).commit
    assert removed is not None
    assert tree(mirror, removed) == {"a.txt": "100644"}


async def test_replaced_objects_are_ignored(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    mirror = worktree.mirror
    write(worktree.path, {"a.txt": "2\n"})
    plain_git(worktree.path, "commit", "-q", "-a", "-m", "mine")
    diff = await worktree.changes(worktree.commit)
    snapshot = (await worktree.snapshot(worktree.commit)).commit
    assert snapshot is not None
    plain_git(mirror.folder, "replace", worktree.commit, snapshot)
    assert await worktree.changes(worktree.commit) == diff
