"""Snapshots contain every file of a worktree, whatever git commands the agent has run."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gigafactory.domain.job.diff import Change
from gigafactory.factory.git.errors import GitNotFound
from gigafactory.factory.git.safe_copy import SkippedPath, SkipReason
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import GitHarness, blob, plain_git, tree, write


async def test_snapshot_contains_new_changed_and_deleted_files(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree(
        {"a.txt": "1\n", "gone": "", "keep": "", "x": ""}
    )
    write(worktree.path, {"a.txt": "2\n", "gone": None, "new/er.txt": "3\n"})
    (worktree.path / "x").chmod(0o755)
    snapshot = await worktree.snapshot(worktree.commit, message="so far", trailers={"Aq-Job": "j"})
    assert snapshot.commit is not None
    modes = {"a.txt": "100644", "keep": "100644", "new/er.txt": "100644", "x": "100755"}
    assert tree(worktree.mirror, snapshot.commit) == modes
    assert blob(worktree.mirror, snapshot.commit, "a.txt") == "2"
    shown = plain_git(worktree.mirror.folder, "log", "-1", "--format=%P|%an|%B", snapshot.commit)
    assert shown == f"{worktree.commit}|Gigafactory|so far\n\nAq-Job: j\n"


async def test_unchanged_worktree_makes_no_commit(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    assert (await worktree.snapshot(worktree.commit)).commit is None
    write(worktree.path, {"a.txt": "changed\n"})
    first = (await worktree.snapshot(worktree.commit)).commit
    assert first is not None
    assert (await worktree.snapshot(first)).commit is None
    write(worktree.path, {"a.txt": "one\n"})
    back = (await worktree.snapshot(first)).commit
    assert back is not None
    assert tree(worktree.mirror, back) == tree(worktree.mirror, worktree.commit)
    assert (await worktree.snapshot(worktree.commit)).commit is None


async def test_snapshot_skips_ignored_files_and_keeps_tracked_ones(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree({".gitignore": "*.log\n", "kept.log": "1\n"})
    write(worktree.path, {"kept.log": "2\n", "new.log": "3\n", "new.txt": "4\n"})
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    assert sorted(tree(worktree.mirror, commit)) == [".gitignore", "kept.log", "new.txt"]
    assert blob(worktree.mirror, commit, "kept.log") == "2"


async def test_run_files_in_the_aq_folder_are_never_committed(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree({"a.txt": "1\n", ".aq/setup": "true\n"})
    write(worktree.path, {".aq/pr.md": "# Done\n", ".aq/state": "x\n"})
    assert (await worktree.snapshot(worktree.commit)).commit is None
    write(worktree.path, {".aq/setup": "false\n"})
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    assert sorted(tree(worktree.mirror, commit)) == [".aq/setup", "a.txt"]
    assert plain_git(worktree.path, "status", "--porcelain", ".aq/pr.md") == ""


async def test_too_large_files_are_skipped_and_reported(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    commit = world.remote.commit({"a.txt": "small\n"})
    worktree = await Worktree.add(await world.mirror(), tmp_path / "job", commit, file_bytes_max=10)
    write(worktree.path, {"a.txt": "x" * 11, "b.txt": "x" * 11, "c.txt": "x" * 10})
    snapshot = await worktree.snapshot(commit)
    assert snapshot.commit is not None
    assert sorted(tree(worktree.mirror, snapshot.commit)) == ["a.txt", "c.txt"]
    assert blob(worktree.mirror, snapshot.commit, "a.txt") == "small"
    assert snapshot.left_out == (
        SkippedPath("a.txt", SkipReason.TOO_LARGE),
        SkippedPath("b.txt", SkipReason.TOO_LARGE),
    )


def _commits(path: Path) -> None:
    plain_git(path, "add", "-A")
    plain_git(path, "commit", "-q", "-m", "mine")


def _switches(path: Path) -> None:
    _commits(path)
    plain_git(path, "checkout", "-q", "-b", "elsewhere")


def _resets(path: Path) -> None:
    _commits(path)
    plain_git(path, "reset", "-q", "--soft", "HEAD~1")


def _unlinks(path: Path) -> None:
    (path / ".git").unlink()


def _starts_over(path: Path) -> None:
    _unlinks(path)
    plain_git(path, "init", "-q")
    _commits(path)


def _hides(path: Path) -> None:
    plain_git(path, "update-index", "--assume-unchanged", "a.txt")
    plain_git(path, "update-index", "--skip-worktree", "src/b.txt")


def _breaks(path: Path) -> None:
    own = Path(plain_git(path, "rev-parse", "--git-dir"))
    (own / "index").write_bytes(b"broken")
    (own / "index.lock").write_bytes(b"")
    (own / "HEAD").write_bytes(b"")


def _stashes(path: Path) -> None:
    plain_git(path, "stash", "-u")
    plain_git(path, "stash", "apply")


@pytest.mark.parametrize(
    "agent",
    [_commits, _switches, _resets, _unlinks, _starts_over, _hides, _breaks, _stashes],
)
async def test_snapshot_matches_the_files_after_any_git_command_of_the_agent(
    tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"a.txt": "changed\n", "src/b.txt": None, "new.txt": "new\n"})
    if agent is _hides:
        write(worktree.path, {"src/b.txt": "changed\n"})
    agent(worktree.path)
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    expected = {"a.txt", "new.txt"} | ({"src/b.txt"} if agent is _hides else set())
    assert set(tree(worktree.mirror, commit)) == expected
    assert blob(worktree.mirror, commit, "a.txt") == "changed"


async def test_snapshot_leaves_the_agents_index_and_head_unchanged(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"a.txt": "staged\n"})
    plain_git(worktree.path, "add", "a.txt")
    write(worktree.path, {"a.txt": "not staged\n", "new.txt": "x\n"})
    before = plain_git(worktree.path, "status", "--porcelain=2")
    assert (await worktree.snapshot(worktree.commit)).commit is not None
    assert plain_git(worktree.path, "status", "--porcelain=2") == before
    assert plain_git(worktree.path, "rev-parse", "HEAD") == worktree.commit


async def test_snapshot_handles_files_folders_and_links_swapping_places(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree(
        {"file": "1\n", "folder/a": "2\n", "other/b": "3\n"}
    )
    path = worktree.path
    write(path, {"file": None, "folder/a": None, "other/b": None})
    (path / "folder").rmdir()
    (path / "other").rmdir()
    (path / "other").symlink_to("folder")
    write(path, {"file/inside": "4\n", "folder": "5\n"})
    before = worktree.mirror.git.runs
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    assert worktree.mirror.git.runs - before == 6, "in one go, not by the way for odd files"
    modes = {"file/inside": "100644", "folder": "100644", "other": "120000"}
    assert tree(worktree.mirror, commit) == modes
    write(path, {"file/inside": None, "folder": None})
    (path / "other").unlink()
    write(path, {"folder/a": "2\n", "other/b": "3\n"})
    (path / "file").rmdir()
    write(path, {"file": "1\n"})
    assert (await worktree.snapshot(worktree.commit)).commit is None


async def test_snapshot_keeps_non_utf8_and_multiline_file_names(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    names = (b"line\nend", b"-rf", b"caf\xe9", b'"quoted"', b":(top)x", b"\xf0\x9f\x8d\xb5")
    write(worktree.path, {os.fsdecode(name): "x" for name in names})
    snapshot = await worktree.snapshot(worktree.commit)
    assert snapshot.commit is not None
    listed = plain_git(worktree.mirror.folder, "ls-tree", "-r", "--name-only", snapshot.commit)
    assert len(listed.splitlines()) == 8
    assert snapshot.left_out == ()


async def test_snapshot_skips_names_reserved_by_git(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"sub/.GIT/config": "x", "git~1": "x", ".git /y": "x", "ok": "x"})
    (worktree.path / ".gitmodules").symlink_to("/etc/passwd")
    snapshot = await worktree.snapshot(worktree.commit)
    assert snapshot.commit is not None
    assert sorted(tree(worktree.mirror, snapshot.commit)) == ["a.txt", "ok", "src/b.txt"]
    assert {left.why for left in snapshot.left_out} == {SkipReason.NAME}
    assert len(snapshot.left_out) == 4


async def test_snapshot_follows_line_ending_and_encoding_attributes(tmp_path: Path) -> None:
    attributes = "*.bat text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n"
    files = {".gitattributes": attributes, "run.bat": "one\r\ntwo\r\n"}
    worktree = await GitHarness(tmp_path).worktree(files)
    assert (worktree.path / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    write(worktree.path, {"run.bat": "one\r\nthree\r\n", "x.u16": "héllo".encode("utf-16-le")})
    diff = await worktree.changes(worktree.commit)
    assert [(file.path, file.added, file.deleted) for file in diff.files] == [
        ("run.bat", 1, 1),
        ("x.u16", 1, 0),
    ]


async def test_file_that_contradicts_its_encoding_attribute_is_kept_unchanged(
    tmp_path: Path,
) -> None:
    attributes = "* working-tree-encoding=UTF-16\n"
    worktree = await GitHarness(tmp_path).worktree({"a.txt": "one\n", "gone": ""})
    write(worktree.path, {".gitattributes": attributes, "a.txt": "odd", 'n"\n': "w", "gone": None})
    (worktree.path / "link").symlink_to("/etc/passwd")
    (worktree.path / "a.txt").chmod(0o755)
    commit = (await worktree.snapshot(worktree.commit)).commit
    assert commit is not None
    assert tree(worktree.mirror, commit) == {
        ".gitattributes": "100644",
        "a.txt": "100755",
        "link": "120000",
        'n"\n': "100644",
    }
    assert blob(worktree.mirror, commit, "a.txt") == "odd"
    assert blob(worktree.mirror, commit, "link") == "/etc/passwd"


async def test_snapshot_of_a_missing_worktree_raises_not_found(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    worktree.path.rename(tmp_path / "elsewhere")
    with pytest.raises(GitNotFound, match="no folder"):
        await worktree.snapshot(worktree.commit)


async def test_a_broken_index_is_rebuilt(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"new.txt": "x"})
    [index] = worktree.mirror.worktrees.glob("*/index")
    index.with_name("index.lock").write_bytes(b"")
    for damage in (b"DIRCbroken", None):
        write(index.parent, {"index": damage})
        commit = (await worktree.snapshot(worktree.commit)).commit
        assert commit is not None
        assert sorted(tree(worktree.mirror, commit)) == ["a.txt", "new.txt", "src/b.txt"]
    assert list(index.parent.glob("staging-*")) == []


async def test_concurrent_snapshots_wait_for_each_other(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {f"{number}.txt": "x" for number in range(20)})
    taken = await asyncio.gather(*(worktree.snapshot(worktree.commit) for _ in range(3)))
    trees = {len(tree(worktree.mirror, one.commit)) for one in taken if one.commit is not None}
    assert trees == {22}


async def test_changes_name_files_lines_renames_and_binaries(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    world = GitHarness(tmp_path)
    worktree = await world.worktree({"old.txt": text, "gone": "1\n", "a": "1\n2\n", "t": "x\n"})
    write(worktree.path, {"old.txt": None, "dir/new.txt": text, "gone": None, "a": "1\n3\n4\n"})
    write(worktree.path, {"picture": b"\0\1\2", ".gitattributes": "* -diff\n", "t": None})
    (worktree.path / "t").symlink_to("a")
    diff = await worktree.changes(worktree.commit)
    found = {file.path: (file.change, file.added, file.deleted) for file in diff.files}
    assert found == {
        ".gitattributes": (Change.ADDED, 1, 0),
        "a": (Change.MODIFIED, 2, 1),
        "dir/new.txt": (Change.RENAMED, 0, 0),
        "gone": (Change.DELETED, 0, 1),
        "picture": (Change.ADDED, 0, 0),
        "t": (Change.TYPE, 1, 1),
    }
    assert [file.path for file in diff.files if file.binary] == ["picture"]
    assert {file.path: file.old_path for file in diff.files if file.old_path} == {
        "dir/new.txt": "old.txt"
    }
    assert "old.txt" in diff.paths
    assert (diff.added, diff.deleted) == (4, 3)


async def test_unchanged_worktree_has_an_empty_diff(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    assert (await worktree.changes(worktree.commit)).files == ()
