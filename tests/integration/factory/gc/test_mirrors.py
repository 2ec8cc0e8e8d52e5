"""Mirrors: packed without loss, pruned only when no worktree borrows, removed when long unused."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.mirror import Mirror
from tests.support.factory.git_repo import plain_git, write
from tests.support.factory.two_machines import NOW, GcHarness, lines_of_kind

LATER = NOW + timedelta(days=20)
MUCH_LATER = NOW + timedelta(days=31)


@pytest.fixture
def jobs(tmp_path: Path) -> GcHarness:
    return GcHarness(tmp_path)


def has(mirror: Mirror, commit: str) -> bool:
    return plain_git(mirror.folder, "cat-file", "-t", commit, check=False) == "commit"


async def unreferenced(mirror: Mirror, base: str) -> str:
    """Create an old commit in the mirror without a ref and return its id."""
    tree = await mirror.tree(base)
    made = await mirror.run("commit-tree", "-m", "loose", tree)
    for path in mirror.folder.rglob("objects/*/*"):
        old = (NOW - timedelta(days=60)).timestamp()
        os.utime(path, (old, old))
    return made.text


async def test_unreferenced_objects_are_pruned_when_no_worktree_borrows_them(
    jobs: GcHarness,
) -> None:
    mirror = await jobs.one.mirror()
    loose = await unreferenced(mirror, jobs.base)
    assert (await jobs.one.collect()).swept == (), "it was made just now"
    await jobs.one.collect(at=LATER)
    assert not has(mirror, loose)
    assert has(mirror, jobs.base)
    assert (mirror.folder / "pruned").exists()


async def test_objects_needed_by_a_worktree_are_never_pruned(jobs: GcHarness) -> None:
    """Keep the objects of a worktree whose base was deleted at the remote."""
    side = jobs.remote.commit({"side.txt": "x\n"}, branch="side")
    busy = await jobs.one.worktree("a", side)
    loose = await unreferenced(busy.mirror, jobs.base)
    plain_git(jobs.remote.path, "update-ref", "-d", "refs/heads/side")
    await busy.mirror.fetch()
    await unreferenced(busy.mirror, jobs.base)
    jobs.one.live.add("a")
    await jobs.one.collect(at=LATER)
    assert has(busy.mirror, loose)
    assert plain_git(busy.path, "fsck", "--connectivity-only", check=True) is not None
    assert plain_git(busy.path, "log", "--format=%H", "-1") == side
    write(busy.path, {"new.txt": "x"})
    plain_git(busy.path, "add", "-A")
    plain_git(busy.path, "commit", "-q", "-m", "goes on")
    assert (await busy.snapshot(side)).commit is not None


async def test_nothing_is_pruned_while_a_run_is_registered(jobs: GcHarness) -> None:
    mirror = await jobs.one.mirror()
    loose = await unreferenced(mirror, jobs.base)
    jobs.one.register_run("a", str(jobs.remote.path))
    await jobs.one.collect(at=LATER)
    assert has(mirror, loose)


async def test_nothing_is_pruned_during_a_fetch(jobs: GcHarness) -> None:
    mirror = await jobs.one.mirror()
    loose = await unreferenced(mirror, jobs.base)
    lock = FileLock.try_acquire(mirror.lock)
    assert lock is not None
    with lock:
        await jobs.one.collect(at=LATER)
    assert has(mirror, loose)


async def test_fragmented_mirror_in_use_is_packed_without_losing_objects(
    jobs: GcHarness,
) -> None:
    busy = await jobs.one.worktree("a", jobs.base)
    jobs.one.live.add("a")
    mirror = busy.mirror
    loose = await unreferenced(mirror, jobs.base)
    for number in range(25):
        blob = f"blob {number}\n".encode()
        made = await mirror.run("hash-object", "-w", "--stdin", stdin=blob)
        pack = str(mirror.folder / "objects/pack/pack")
        await mirror.run("pack-objects", "-q", pack, stdin=made.stdout)
    report = await jobs.one.collect()
    assert [(each.did, each.kind) for each in report.swept] == [("packed", "mirror")]
    assert len(list(mirror.folder.glob("objects/pack/*.pack"))) < 5
    assert has(mirror, loose)
    assert plain_git(busy.path, "status", "--porcelain") == ""
    assert (await jobs.one.collect()).swept == ()


async def test_unused_mirror_is_removed_and_can_be_fetched_again(
    jobs: GcHarness,
) -> None:
    mirror = await jobs.one.mirror()
    assert (await jobs.one.collect(at=LATER)).changed == ()
    report = await jobs.one.collect(at=MUCH_LATER)
    assert lines_of_kind(report, "mirror") == [
        f"removed mirror {mirror.folder.name}: not used for 30 days; it can be fetched again"
    ]
    assert list(jobs.one.data_dir.mirrors.glob("*.git")) == []
    assert (await jobs.one.collect(at=MUCH_LATER)).swept == ()
    # This models a run that opened the mirror just before the removal and then fetches.
    await mirror.fetch()
    assert await mirror.resolve("main") == jobs.base
    assert await (await jobs.one.mirror()).resolve("main") == jobs.base


async def test_mirror_with_a_worktree_or_a_run_is_kept(jobs: GcHarness) -> None:
    left = await jobs.one.worktree("a", jobs.base)
    write(left.path, {"new.txt": "unsaved"})
    left.close()
    await jobs.one.collect(at=MUCH_LATER)
    assert left.mirror.folder.exists()
    mirror = await jobs.two.mirror()
    jobs.two.register_run("b", str(jobs.remote.path))
    await jobs.two.collect(at=MUCH_LATER)
    assert mirror.folder.exists()


async def test_reopened_mirror_counts_as_used(jobs: GcHarness) -> None:
    mirror = await jobs.one.mirror()
    note = mirror_notes.metadata_file(mirror.folder)
    old = (NOW - timedelta(days=60)).timestamp()
    os.utime(note, (old, old))
    report = await jobs.one.collect(dry_run=True)
    assert [each.did for each in report.swept] == ["removed"]
    assert mirror.folder.exists()
    await jobs.one.mirror()
    assert (await jobs.one.collect()).swept == ()


async def test_interrupted_mirror_removal_is_finished(jobs: GcHarness) -> None:
    mirror = await jobs.one.mirror()
    mirror.folder.rename(mirror.folder.with_suffix(".old"))
    await jobs.one.collect()
    assert list(jobs.one.data_dir.mirrors.glob("*.old")) == []
