"""`aq gc` on this machine: removed and kept files."""

import os
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gigafactory.domain.errors import Conflict, Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.gc.gc import GarbageCollector
from gigafactory.factory.gc.job_status import JobState
from gigafactory.factory.gc.report import GcItem, GcReport, kept_item, removed_item
from gigafactory.factory.run import run_registry
from gigafactory.factory.run.run_registry import RegisteredRun

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=60)


class FolderWorktrees:
    """Worktrees with unsaved work if they contain a file named `unsaved`."""

    async def discard(self, worktree: Path, *, dry_run: bool) -> str | None:
        if (worktree / "taken").exists():
            raise Conflict("a run is working in it")
        if (worktree / "unsaved").exists():
            return "1 changed file"
        if not dry_run:
            remove_tree(worktree)
        return None


class ListedFates:
    """A job lookup with a fixed set of finished jobs and an optional outage."""

    def __init__(self, finished: frozenset[str], *, away: bool = False) -> None:
        self.finished = finished
        self.away = away

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        if self.away:
            raise Unavailable("it is away")
        stages = dict.fromkeys(self.finished, Stage.SHIPPED)
        known = [each for each in job_ids if not each.startswith("unknown")]
        return {each: JobState(stage=stages.get(each, Stage.QUEUED), since=OLD) for each in known}

    async def is_merged(self, job_id: str) -> bool:
        return job_id in self.finished


class ListedChore:
    """A chore with a fixed result."""

    def __init__(self, *swept: GcItem) -> None:
        self.swept = swept
        self.dry: list[bool] = []

    async def collect(self, now: datetime, *, dry_run: bool) -> GcReport:
        assert now == NOW
        self.dry.append(dry_run)
        return GcReport(swept=self.swept, notes=("a word",))


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    made = DataDir.under(tmp_path)
    made.create()
    return made


def put(file: Path, *, at: datetime = NOW) -> None:
    """Write a file and set its modification time and that of its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    for path in (file, *file.parents[:3]):
        os.utime(path, (at.timestamp(), at.timestamp()))


async def round_of(
    data_dir: DataDir,
    *,
    live: frozenset[str] = frozenset(),
    finished: frozenset[str] = frozenset(),
    away: bool = False,
    chores: tuple[ListedChore, ...] = (),
    dry_run: bool = False,
) -> GcReport:
    keeper = GarbageCollector(
        data_dir,
        is_live=live.__contains__,
        states=ListedFates(finished, away=away),
        worktrees=FolderWorktrees(),
        tasks=chores,
    )
    return await keeper.collect(NOW, dry_run=dry_run)


async def sweep(
    data_dir: DataDir,
    *,
    live: frozenset[str] = frozenset(),
    finished: frozenset[str] = frozenset(),
) -> tuple[GcItem, ...]:
    return (await round_of(data_dir, live=live, finished=finished)).swept


async def test_worktree_without_a_run_is_removed_and_reported(data_dir: DataDir) -> None:
    put(data_dir.worktree("done") / "file")
    (swept,) = await sweep(data_dir)
    assert str(swept) == "removed worktree done: its job has no run here"
    assert not data_dir.worktree("done").exists()


async def test_worktree_with_a_live_run_is_kept(data_dir: DataDir) -> None:
    put(data_dir.worktree("busy") / "file", at=OLD)
    assert await sweep(data_dir, live=frozenset({"busy"}), finished=frozenset({"busy"})) == ()
    assert (data_dir.worktree("busy") / "file").exists()


async def test_unsaved_work_is_kept_and_reported(data_dir: DataDir) -> None:
    put(data_dir.worktree("job") / "unsaved", at=OLD)
    (swept,) = await sweep(data_dir, finished=frozenset({"job"}))
    assert swept.did == "kept"
    assert swept.reason == "it has work that is saved nowhere else: 1 changed file"
    assert (data_dir.worktree("job") / "unsaved").exists()


async def test_worktree_used_by_another_process_is_kept(data_dir: DataDir) -> None:
    put(data_dir.worktree("job") / "taken", at=OLD)
    (swept,) = await sweep(data_dir)
    assert str(swept) == "kept worktree job: it cannot be removed: a run is working in it"


async def test_folder_without_a_job_name_is_kept(data_dir: DataDir) -> None:
    put(data_dir.worktrees / "two words" / "file", at=OLD)
    put(data_dir.homes / "two words" / "file", at=OLD)
    (swept,) = await sweep(data_dir)
    assert (swept.did, swept.reason) == ("kept", "its name is not that of a job")


async def test_old_home_of_a_finished_job_is_removed(data_dir: DataDir) -> None:
    for job_id in ("finished", "waiting", "running"):
        put(data_dir.home(job_id) / ".agent" / "session.jsonl", at=OLD)
    put(data_dir.home("recent") / ".agent" / "session.jsonl")
    finished = frozenset({"finished", "running", "recent"})
    swept = await sweep(data_dir, live=frozenset({"running"}), finished=finished)
    assert [str(each)[:21] for each in swept] == ["removed home finished"]
    assert sorted(home.name for home in data_dir.homes.iterdir()) == [
        "recent",
        "running",
        "waiting",
    ]


async def test_home_age_is_that_of_its_newest_nested_file(data_dir: DataDir) -> None:
    put(data_dir.home("job") / "a" / "old", at=OLD)
    young = data_dir.home("job") / "a" / "young"
    young.write_text("x")
    os.utime(data_dir.home("job"), (OLD.timestamp(), OLD.timestamp()))
    assert await sweep(data_dir, finished=frozenset({"job"})) == ()


async def test_old_logs_and_quarantined_results_are_removed(data_dir: DataDir) -> None:
    put(data_dir.log_file("run-1"), at=OLD)
    put(data_dir.log_file("run-2"))
    put(data_dir.quarantine_folder("job-1", 3) / "patch", at=OLD)
    put(data_dir.quarantine_folder("job-2", 1) / "patch")
    swept = await sweep(data_dir)
    assert [(each.kind, each.name) for each in swept] == [
        ("log", "run-1.log"),
        ("quarantine", "job-1"),
    ]
    assert data_dir.log_file("run-2").exists()
    assert data_dir.quarantine_folder("job-2", 1).exists()


async def test_other_chores_run_in_the_same_round(data_dir: DataDir) -> None:
    chore = ListedChore(
        removed_item("branch", "aq/wip/a/1", "done"), kept_item("branch", "aq/job/b", "new")
    )
    placement = await round_of(data_dir, chores=(chore, chore), dry_run=True)
    assert chore.dry == [True, True]
    assert [each.name for each in placement.changed] == ["aq/wip/a/1", "aq/wip/a/1"]
    assert placement.notes == ("a word",)
    assert placement.swept[0].describe(dry=True) == "would remove branch aq/wip/a/1: done"


async def test_sweep_without_a_coordinator_keeps_homes_and_removes_logs(data_dir: DataDir) -> None:
    put(data_dir.home("done") / "a" / "file", at=OLD)
    put(data_dir.log_file("run-1"), at=OLD)
    placement = await round_of(data_dir, finished=frozenset({"done"}), away=True)
    assert [each.kind for each in placement.swept] == ["log"]
    assert placement.notes == ("homes were skipped, as their jobs are unknown: it is away",)
    assert data_dir.home("done").exists()


async def test_old_home_of_an_unknown_job_is_kept_and_reported(
    data_dir: DataDir,
) -> None:
    put(data_dir.home("unknown-1") / "a" / "file", at=OLD)
    put(data_dir.home("unknown-2") / "a" / "file")
    (swept,) = await sweep(data_dir)
    assert (swept.did, swept.name) == ("kept", "unknown-1")


async def test_dry_run_reports_the_same_and_changes_nothing(data_dir: DataDir) -> None:
    put(data_dir.worktree("done") / "file")
    put(data_dir.home("done") / "a" / "file", at=OLD)
    put(data_dir.log_file("run-1"), at=OLD)
    put(data_dir.quarantine_folder("job-1", 3) / "patch", at=OLD)
    run_registry.register(data_dir, a_run("done"))
    before = sorted((path, path.lstat().st_mtime) for path in data_dir.root.rglob("*"))
    placement = await round_of(data_dir, finished=frozenset({"done"}), dry_run=True)
    assert sorted((path, path.lstat().st_mtime) for path in data_dir.root.rglob("*")) == before
    assert placement.summary() == (
        "would have removed 1 worktree, 1 home, 1 log, 1 quarantined result, 4 B"
    )
    done = await round_of(data_dir, finished=frozenset({"done"}))
    assert done.swept == placement.swept


async def test_worktree_removal_also_removes_its_run_registry_entries(data_dir: DataDir) -> None:
    for job_id in ("done", "busy"):
        put(data_dir.worktree(job_id) / "file")
        run_registry.register(data_dir, a_run(job_id))
    await sweep(data_dir, live=frozenset({"busy"}))
    assert [run.job_id for run in run_registry.load_runs(data_dir)] == ["busy"]


def a_run(job_id: str) -> RegisteredRun:
    return RegisteredRun(run_id=f"{job_id}.1", job_id=job_id, epoch=1, mark="m", repo=None)


async def test_second_sweep_finds_nothing(data_dir: DataDir) -> None:
    put(data_dir.worktree("done") / "file")
    put(data_dir.home("done") / "a" / "file", at=OLD)
    put(data_dir.log_file("run-1"), at=OLD)
    assert len(await sweep(data_dir, finished=frozenset({"done"}))) == 3
    assert await sweep(data_dir, finished=frozenset({"done"})) == ()


async def test_data_dir_of_an_unused_factory_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert await sweep(DataDir.under(tmp_path)) == ()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_remove_tree_removes_read_only_folders_and_follows_no_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    tree = tmp_path / "tree"
    put(tree / "cache" / "module" / "file")
    (tree / "link").symlink_to(outside)
    (tree / "cache" / "module").chmod(0o500)
    (tree / "cache").chmod(0o500)
    remove_tree(tree)
    link = tmp_path / "link"
    link.symlink_to(outside)
    remove_tree(link)
    remove_tree(link)
    assert not tree.exists()
    assert (outside / "precious").exists()
