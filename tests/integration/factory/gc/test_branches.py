"""Garbage collection of job branches on a remote that several factories share."""

from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.domain.job.job import FINAL, Stage
from gigafactory.factory.git.push import delete_branches
from tests.support.factory.git_repo import plain_git
from tests.support.factory.two_machines import LONG_AGO, NOW, GcHarness, lines_of_kind


@pytest.fixture
def jobs(tmp_path: Path) -> GcHarness:
    return GcHarness(tmp_path)


async def test_all_branches_of_a_shipped_job_are_removed(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    jobs.merge("a")
    await jobs.one.mirror()
    swept = await jobs.one.collect()
    assert lines_of_kind(swept, "branch") == [
        "removed branch aq/job/a: it is merged",
        "removed branch aq/wip/a/1: its job is shipped",
    ]
    assert jobs.remote.branches() == ["main"]
    assert swept.summary() == "removed 2 branches"


@pytest.mark.parametrize("told", [True, False])
async def test_squash_merged_result_branch_is_removed(jobs: GcHarness, *, told: bool) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    jobs.squash("a", with_trailers_of_job=told)
    await jobs.one.mirror()
    assert "removed branch aq/job/a: its job is shipped" in lines_of_kind(
        await jobs.one.collect(), "branch"
    )
    assert jobs.job_branches() == []


async def test_result_branch_of_an_open_pull_request_is_kept(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    jobs.job_states.unmerged.add("a")
    await jobs.one.mirror()
    lines = lines_of_kind(await jobs.one.collect(), "branch")
    assert lines[1].startswith("kept branch aq/job/a: its job is shipped, but not into a branch")
    assert jobs.job_branches() == ["aq/job/a"]
    jobs.squash("a", with_trailers_of_job=True)
    assert lines_of_kind(await jobs.one.collect(), "branch") == [
        "removed branch aq/job/a: it is merged, as another commit"
    ]


async def test_result_branch_with_later_commits_is_kept(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    jobs.merge("a")
    jobs.remote.commit({"more.txt": "of mine"}, branch="aq/job/a")
    await jobs.one.mirror()
    lines = lines_of_kind(await jobs.one.collect(), "branch")
    assert "kept branch aq/job/a: its job is shipped, but its newest commit" in lines[1]
    assert jobs.job_branches() == ["aq/job/a"]


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in FINAL])
async def test_branches_of_an_unfinished_job_are_kept(jobs: GcHarness, stage: Stage) -> None:
    jobs.job_states.set_state("a", stage, head=jobs.deliver("a"), since=LONG_AGO)
    jobs.merge("a")
    mirror = await jobs.one.mirror()
    await mirror.fetch_branch("aq/wip/a/1")
    before = jobs.job_branches()
    swept = await jobs.one.collect()
    assert (swept.swept, swept.notes) == ((), ())
    assert jobs.job_branches() == before == ["aq/job/a", "aq/wip/a/1"]
    refs = plain_git(mirror.folder, "for-each-ref", "refs/remotes/origin/aq")
    assert "aq/wip/a/1" in refs


@pytest.mark.parametrize("stage", [Stage.FAILED, Stage.CANCELLED, Stage.DEAD_LETTER])
async def test_branches_of_an_unshipped_job_are_kept_for_two_weeks(
    jobs: GcHarness, stage: Stage
) -> None:
    jobs.job_states.set_state("a", stage, head=jobs.deliver("a"), since=NOW - timedelta(days=13))
    await jobs.one.mirror()
    assert (await jobs.one.collect()).swept == ()
    assert jobs.job_branches() == ["aq/job/a", "aq/wip/a/1"]
    lines = lines_of_kind(await jobs.one.collect(at=NOW + timedelta(days=2)), "branch")
    assert lines[0].startswith(f"removed branch aq/wip/a/1: its job is {stage} since")
    assert "and it is not merged; delete it if it is not needed" in lines[1]
    assert jobs.job_branches() == ["aq/job/a"]


async def test_failed_result_merged_by_hand_is_removed(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.FAILED, head=jobs.deliver("a"))
    jobs.merge("a")
    await jobs.one.mirror()
    assert lines_of_kind(await jobs.one.collect(), "branch") == [
        "removed branch aq/job/a: it is merged"
    ]
    assert jobs.job_branches() == ["aq/wip/a/1"]


async def test_branches_of_unknown_jobs_and_foreign_branches_are_kept(jobs: GcHarness) -> None:
    jobs.deliver("theirs")
    jobs.remote.commit({"x": "y"}, branch="aq/other")
    jobs.remote.commit({"x": "y"}, branch="aq/job/deep/er")
    await jobs.one.mirror()
    swept = await jobs.one.collect()
    assert swept.swept == ()
    assert swept.notes == ("notes: branches of a job that are unknown stay: theirs",)
    assert len(jobs.job_branches()) == 4


async def test_repeated_sweeps_on_two_machines_reach_the_same_state(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    jobs.job_states.set_state("b", Stage.TESTING, head=jobs.deliver("b"))
    jobs.merge("a")
    for machine in (jobs.one, jobs.two):
        mirror = await machine.mirror()
        for name in ("aq/job/a", "aq/wip/b/1"):
            await mirror.fetch_branch(name)
    assert len((await jobs.one.collect()).changed) == 2
    assert (await jobs.one.collect()).swept == ()
    left = lines_of_kind(await jobs.two.collect(), "branch")
    assert left in ([], ["removed branch aq/job/a: it is merged"]), "only what its mirror knew"
    assert (await jobs.two.collect()).swept == ()
    assert jobs.job_branches() == ["aq/job/b", "aq/wip/b/1"]


async def test_branch_that_moved_after_the_decision_is_kept(jobs: GcHarness) -> None:
    judged = jobs.deliver("a")
    mirror = await jobs.one.mirror()
    moved = jobs.remote.commit({"new.txt": "work"}, branch="aq/job/a")
    wip = jobs.remote.commit_of("aq/wip/a/1")
    assert wip is not None
    stay = await delete_branches(
        mirror, {"aq/job/a": judged, "aq/wip/a/1": wip, "aq/wip/gone/1": judged}
    )
    assert stay == {"aq/job/a": f"it is now at {moved[:12]}"}
    assert jobs.job_branches() == ["aq/job/a"]


async def test_job_requeued_during_a_sweep_keeps_its_branches(
    jobs: GcHarness,
) -> None:
    jobs.job_states.set_state("a", Stage.FAILED, head=jobs.deliver("a"), since=LONG_AGO)
    await jobs.one.mirror()
    jobs.job_states.after_lookup = lambda: jobs.job_states.set_state("a", Stage.QUEUED)
    await jobs.one.collect()
    assert jobs.job_branches() == ["aq/job/a", "aq/wip/a/1"]


async def test_dry_run_reports_branches_and_changes_nothing(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    mirror = await jobs.one.mirror()
    await mirror.fetch_branch("aq/wip/a/1")
    before = {
        path: path.lstat().st_mtime_ns
        for root in (jobs.one.data_dir.root, jobs.remote.path)
        for path in root.rglob("*")
    }
    report = await jobs.one.collect(dry_run=True)
    assert report.summary() == "would have removed 2 branches"
    for path, changed in before.items():
        assert path.lstat().st_mtime_ns == changed, path
    assert jobs.job_branches() == ["aq/job/a", "aq/wip/a/1"]


async def test_sweep_without_a_coordinator_removes_no_branch(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    await jobs.one.mirror()
    jobs.job_states.unavailable = True
    report = await jobs.one.collect()
    assert report.swept == ()
    assert report.notes == ("branches were skipped, as their jobs are unknown: it is away",)
    assert jobs.job_branches() == ["aq/job/a", "aq/wip/a/1"]


async def test_unreachable_remote_is_noted_and_the_sweep_continues(jobs: GcHarness) -> None:
    jobs.job_states.set_state("a", Stage.SHIPPED, head=jobs.deliver("a"))
    await jobs.one.mirror()
    jobs.remote.path.rename(jobs.remote.path.with_suffix(".away"))
    report = await jobs.one.collect()
    assert report.swept == ()
    assert report.notes[0].startswith("branches of notes were skipped: ")
