"""`aq gc`: what is removed, and what never is."""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gigafactory.domain.errors import Conflict
from gigafactory.factory.housekeeping import Housekeeping, Swept, jobs_kept, remove_tree
from gigafactory.factory.places import Places

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=60)


class FolderWorktrees:
    """Worktrees whose unsaved work is a file of that name."""

    async def discard(self, worktree: Path) -> str | None:
        if (worktree / "taken").exists():
            raise Conflict("somebody is at work there")
        if (worktree / "unsaved").exists():
            return "1 changed file"
        remove_tree(worktree)
        return None


class ListedBranches:
    """Branches of a list, of which one cannot be deleted."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    async def merged_and_finished(self) -> tuple[str, ...]:
        return tuple(self.names)

    async def delete(self, name: str) -> None:
        if name.endswith("stuck"):
            raise Conflict("the remote is away")
        self.names.remove(name)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places.below(tmp_path)
    made.create()
    return made


def put(file: Path, *, at: datetime = NOW) -> None:
    """Make a file, and let its folders look as old as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    for path in (file, *file.parents[:3]):
        os.utime(path, (at.timestamp(), at.timestamp()))


async def sweep(
    places: Places,
    *,
    live: frozenset[str] = frozenset(),
    finished: frozenset[str] = frozenset(),
    branches: ListedBranches | None = None,
) -> tuple[Swept, ...]:
    keeper = Housekeeping(
        places,
        is_live=live.__contains__,
        is_finished=finished.__contains__,
        worktrees=FolderWorktrees(),
        branches=branches,
    )
    return await keeper.sweep(NOW)


async def test_a_worktree_without_a_run_is_removed_and_told(places: Places) -> None:
    put(places.worktree("done") / "file")
    (swept,) = await sweep(places)
    assert str(swept) == "removed worktree done: its job has no run here"
    assert not places.worktree("done").exists()


async def test_a_worktree_with_a_live_run_is_never_touched(places: Places) -> None:
    put(places.worktree("busy") / "file", at=OLD)
    assert await sweep(places, live=frozenset({"busy"}), finished=frozenset({"busy"})) == ()
    assert (places.worktree("busy") / "file").exists()


async def test_unsaved_work_is_never_removed_and_is_told(places: Places) -> None:
    put(places.worktree("job") / "unsaved", at=OLD)
    (swept,) = await sweep(places, finished=frozenset({"job"}))
    assert not swept.removed
    assert swept.reason == "it has work that is saved nowhere else: 1 changed file"
    assert (places.worktree("job") / "unsaved").exists()


async def test_a_worktree_in_which_another_process_works_stays(places: Places) -> None:
    put(places.worktree("job") / "taken", at=OLD)
    (swept,) = await sweep(places)
    assert str(swept) == "kept worktree job: it cannot be removed: somebody is at work there"


async def test_a_folder_that_is_no_job_s_is_left_alone(places: Places) -> None:
    put(places.worktrees / "two words" / "file", at=OLD)
    put(places.homes / "two words" / "file", at=OLD)
    (swept,) = await sweep(places)
    assert (swept.removed, swept.reason) == (False, "it is not named after a job")


async def test_a_home_goes_when_its_job_is_finished_and_it_is_old(places: Places) -> None:
    for job_id in ("finished", "waiting", "running"):
        put(places.home(job_id) / ".agent" / "session.jsonl", at=OLD)
    put(places.home("recent") / ".agent" / "session.jsonl")
    finished = frozenset({"finished", "running", "recent"})
    swept = await sweep(places, live=frozenset({"running"}), finished=finished)
    assert [(each.kind, each.name, each.removed) for each in swept] == [("home", "finished", True)]
    assert sorted(home.name for home in places.homes.iterdir()) == ["recent", "running", "waiting"]


async def test_a_home_is_as_young_as_the_newest_file_deep_inside(places: Places) -> None:
    put(places.home("job") / "a" / "old", at=OLD)
    young = places.home("job") / "a" / "young"
    young.write_text("x")
    os.utime(places.home("job"), (OLD.timestamp(), OLD.timestamp()))
    assert await sweep(places, finished=frozenset({"job"})) == ()


async def test_old_logs_and_quarantined_results_go_and_young_ones_stay(places: Places) -> None:
    put(places.log("run-1"), at=OLD)
    put(places.log("run-2"))
    put(places.quarantined("job-1", 3) / "patch", at=OLD)
    put(places.quarantined("job-2", 1) / "patch")
    swept = await sweep(places)
    assert [(each.kind, each.name) for each in swept] == [
        ("log", "run-1.log"),
        ("quarantine", "job-1"),
    ]
    assert places.log("run-2").exists()
    assert places.quarantined("job-2", 1).exists()


async def test_branches_that_are_done_with_are_deleted_and_the_rest_goes_on(
    places: Places,
) -> None:
    branches = ListedBranches("aq/wip/a/1", "aq/job/stuck", "aq/job/b")
    told = [str(each) for each in await sweep(places, branches=branches)]
    assert told == [
        "removed branch aq/wip/a/1: merged or finished",
        "kept branch aq/job/stuck: it cannot be removed: the remote is away",
        "removed branch aq/job/b: merged or finished",
    ]


async def test_sweeping_twice_is_the_same_as_once(places: Places) -> None:
    put(places.worktree("done") / "file")
    put(places.home("done") / "a" / "file", at=OLD)
    put(places.log("run-1"), at=OLD)
    assert len(await sweep(places, finished=frozenset({"done"}))) == 3
    assert await sweep(places, finished=frozenset({"done"})) == ()


async def test_a_factory_that_has_never_run_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert await sweep(Places.below(tmp_path)) == ()


def test_the_jobs_to_ask_about_are_those_that_something_is_kept_for(places: Places) -> None:
    put(places.worktree("a/b") / "file")
    put(places.home("c") / "file")
    put(places.quarantined("d", 1) / "patch")
    put(places.homes / ".DS_Store")
    assert jobs_kept(places) == {"a/b", "c", "d"}


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_what_was_made_read_only_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
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
