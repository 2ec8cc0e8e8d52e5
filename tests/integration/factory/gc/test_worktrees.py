"""Garbage collection of worktrees: work that is saved nowhere else is never removed."""

import sys
from pathlib import Path

import pytest

from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git.push import push
from gigafactory.factory.git.workspace import PlainFolder, folder_lock
from gigafactory.factory.git.worktree import WorktreeBusy
from tests.support.factory import unprivileged_gc as closed_folders
from tests.support.factory.git_repo import plain_git, write
from tests.support.factory.two_machines import GcHarness, lines_of_kind


@pytest.fixture
def jobs(tmp_path: Path) -> GcHarness:
    return GcHarness(tmp_path)


async def test_unchanged_worktree_is_removed_from_disk_and_mirror(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    left.close()
    swept = await jobs.one.collect()
    assert lines_of_kind(swept, "worktree") == ["removed worktree a: its job has no run here"]
    assert swept.bytes > 0
    assert list(jobs.one.data_dir.worktrees.iterdir()) == []
    assert list(left.mirror.worktrees.iterdir()) == []
    assert (await jobs.one.collect()).swept == ()


async def test_worktree_in_use_is_kept(jobs: GcHarness) -> None:
    busy = await jobs.one.worktree("a", jobs.base)
    lines = lines_of_kind(await jobs.one.collect(), "worktree")
    assert "kept worktree a: it cannot be removed: " in lines[0]
    jobs.one.live.add("a")
    busy.close()
    assert (await jobs.one.collect()).swept == ()
    assert plain_git(busy.path, "status", "--porcelain") == ""


async def test_unsaved_work_is_kept_and_named(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "of hours", "README.md": "Changed.\n"})
    left.close()
    report = await jobs.one.collect()
    assert lines_of_kind(report, "worktree") == [
        "kept worktree a: it has work that is saved nowhere else: README.md, new.txt"
    ]
    assert (left.path / "new.txt").read_text() == "of hours"


async def test_agent_commit_without_a_push_counts_as_unsaved(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "of hours"})
    plain_git(left.path, "add", "-A")
    plain_git(left.path, "commit", "-q", "-m", "mine")
    left.close()
    assert "new.txt" in lines_of_kind(await jobs.one.collect(), "worktree")[0]
    assert left.path.exists()


async def test_worktree_with_work_pushed_to_a_job_branch_is_removed(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "of hours", "ignored.log": "x", ".gitignore": "*.log\n"})
    taken = await left.snapshot(left.commit)
    assert taken.commit is not None
    await push(left.mirror, taken.commit, "aq/wip/a/3", expect=None)
    left.close()
    report = await jobs.one.collect()
    assert lines_of_kind(report, "worktree") == ["removed worktree a: its job has no run here"]
    assert not left.path.exists()
    assert jobs.job_branches() == ["aq/wip/a/3"]


async def test_worktree_changed_after_its_last_push_is_kept(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "half"})
    taken = await left.snapshot(left.commit)
    assert taken.commit is not None
    await push(left.mirror, taken.commit, "aq/wip/a/3", expect=None)
    write(left.path, {"new.txt": "whole"})
    left.close()
    assert lines_of_kind(await jobs.one.collect(), "worktree")[0].startswith("kept worktree a")


async def test_worktree_is_kept_when_the_remote_is_unreachable(
    jobs: GcHarness,
) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "of hours"})
    left.close()
    jobs.remote.path.rename(jobs.remote.path.with_suffix(".away"))
    lines = lines_of_kind(await jobs.one.collect(), "worktree")
    assert lines[0].startswith("kept worktree a: it cannot be removed: ")
    assert "there is no repo that this factory can see" in lines[0]
    assert left.path.exists()


async def test_nested_repo_counts_as_unsaved_work(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    nested = left.path / "other"
    nested.mkdir()
    plain_git(nested, "init", "-q")
    write(nested, {"mine.txt": "x"})
    left.close()
    assert "other/ (nested repo)" in lines_of_kind(await jobs.one.collect(), "worktree")[0]


async def test_dry_run_reports_worktrees_and_changes_nothing(jobs: GcHarness) -> None:
    clean = await jobs.one.worktree("clean", jobs.base)
    dirty = await jobs.one.worktree("dirty", jobs.base)
    write(dirty.path, {"new.txt": "of hours"})
    for each in (clean, dirty):
        each.close()
    root = jobs.one.data_dir.root
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    report = await jobs.one.collect(dry_run=True)
    assert [(each.name, each.did) for each in report.swept] == [
        ("clean", "removed"),
        ("dirty", "kept"),
    ]
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


async def test_worktree_with_a_broken_record_is_kept_with_its_files(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    left.close()
    (left.git_dir.parent / "record.json").write_text("{")
    lines = lines_of_kind(await jobs.one.collect(), "worktree")
    assert lines[0] == ("kept worktree a: it has work that is saved nowhere else: .git, README.md")
    assert (left.path / "README.md").exists()


async def test_worktree_with_a_broken_index_is_compared_by_its_files(
    jobs: GcHarness,
) -> None:
    clean = await jobs.one.worktree("clean", jobs.base)
    dirty = await jobs.one.worktree("dirty", jobs.base)
    for each in (clean, dirty):
        each.index.write_bytes(b"no index")
        each.close()
    write(dirty.path, {"new.txt": "of hours"})
    report = await jobs.one.collect()
    assert [(each.name, each.did) for each in report.swept] == [
        ("clean", "removed"),
        ("dirty", "kept"),
    ]


async def test_registration_of_a_deleted_worktree_is_removed(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    left.close()
    left.path.rename(jobs.git_harness.folder / "elsewhere")
    report = await jobs.one.collect()
    assert lines_of_kind(report, "worktree") == ["removed worktree a: its files were already gone"]
    assert (await jobs.one.collect()).swept == ()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_unprivileged_gc_removes_read_only_and_keeps_unreadable_folders(tmp_path: Path) -> None:
    result = closed_folders.gc_unprivileged(tmp_path)
    assert result["read-only"].startswith("removed worktree read-only")
    assert result["closed"].endswith("saved nowhere else: closed, which cannot be read")
    assert result["left"] == ["closed"], "of both worktrees"
    assert not result["tree"], "what was made read-only is no hindrance"


async def test_empty_unused_plain_folder_is_removed(jobs: GcHarness) -> None:
    held = PlainFolder(jobs.one.data_dir.worktree("held"))
    PlainFolder(jobs.one.data_dir.worktree("empty")).close()
    full = PlainFolder(jobs.one.data_dir.worktree("full"))
    write(full.path, {"notes.txt": "mine"})
    full.close()
    result = {each.name: each.did for each in (await jobs.one.collect()).swept}
    assert result == {"held": "kept", "empty": "removed", "full": "kept"}
    assert (full.path / "notes.txt").exists()
    await held.remove()
    assert [path.name for path in jobs.one.data_dir.worktrees.iterdir()] == ["full"]


def test_plain_folder_locked_by_gc_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "job"
    lock = FileLock.try_acquire(folder_lock(path))
    assert lock is not None
    with lock, pytest.raises(WorktreeBusy):
        PlainFolder(path)
    PlainFolder(path).close()
