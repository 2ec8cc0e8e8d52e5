"""Which branches of jobs go from a remote that several factories share, and which stay."""

from datetime import timedelta
from pathlib import Path

import pytest

from gigafactory.domain.job.job import FINAL, Stage
from gigafactory.factory.git.push import delete_branches
from tests.support.factory.git_repo import plain_git
from tests.support.factory.two_machines import LONG_AGO, NOW, JobsOnARemote, lines


@pytest.fixture
def jobs(tmp_path: Path) -> JobsOnARemote:
    return JobsOnARemote(tmp_path)


async def test_all_branches_of_a_shipped_job_go(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    jobs.merge("a")
    await jobs.one.mirror()
    swept = await jobs.one.sweep()
    assert lines(swept, "branch") == [
        "removed branch aq/job/a: it is merged",
        "removed branch aq/wip/a/1: its job is shipped",
    ]
    assert jobs.remote.branches() == ["main"]
    assert swept.summary() == "removed 2 branches"


@pytest.mark.parametrize("told", [True, False])
async def test_a_squashed_result_goes_although_it_is_no_ancestor(
    jobs: JobsOnARemote, *, told: bool
) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    jobs.squash("a", told=told)
    await jobs.one.mirror()
    assert "removed branch aq/job/a: its job is shipped" in lines(await jobs.one.sweep(), "branch")
    assert jobs.ours() == []


async def test_a_result_that_may_be_in_an_open_pull_request_stays(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    jobs.fates.apart.add("a")
    await jobs.one.mirror()
    told = lines(await jobs.one.sweep(), "branch")
    assert told[1].startswith("kept branch aq/job/a: its job is shipped, but not into a branch")
    assert jobs.ours() == ["aq/job/a"]
    jobs.squash("a", told=True)
    assert lines(await jobs.one.sweep(), "branch") == [
        "removed branch aq/job/a: it is merged, as another commit"
    ]


async def test_a_result_with_later_commits_stays(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    jobs.merge("a")
    jobs.remote.commit({"more.txt": "of mine"}, branch="aq/job/a")
    await jobs.one.mirror()
    told = lines(await jobs.one.sweep(), "branch")
    assert "kept branch aq/job/a: its job is shipped, but its newest commit" in told[1]
    assert jobs.ours() == ["aq/job/a"]


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in FINAL])
async def test_nothing_of_a_job_that_has_not_ended_is_touched(
    jobs: JobsOnARemote, stage: Stage
) -> None:
    jobs.fates.say("a", stage, head=jobs.result("a"), since=LONG_AGO)
    jobs.merge("a")
    mirror = await jobs.one.mirror()
    await mirror.fetch_branch("aq/wip/a/1")
    before = jobs.ours()
    swept = await jobs.one.sweep()
    assert (swept.swept, swept.notes) == ((), ())
    assert jobs.ours() == before == ["aq/job/a", "aq/wip/a/1"]
    refs = plain_git(mirror.folder, "for-each-ref", "refs/remotes/origin/aq")
    assert "aq/wip/a/1" in refs


@pytest.mark.parametrize("stage", [Stage.FAILED, Stage.CANCELLED, Stage.DEAD_LETTER])
async def test_a_job_that_ended_otherwise_can_be_requeued_for_a_while(
    jobs: JobsOnARemote, stage: Stage
) -> None:
    jobs.fates.say("a", stage, head=jobs.result("a"), since=NOW - timedelta(days=13))
    await jobs.one.mirror()
    assert (await jobs.one.sweep()).swept == ()
    assert jobs.ours() == ["aq/job/a", "aq/wip/a/1"]
    told = lines(await jobs.one.sweep(at=NOW + timedelta(days=2)), "branch")
    assert told[0].startswith(f"removed branch aq/wip/a/1: its job is {stage} since")
    assert "and it is not merged; delete it if it is not needed" in told[1]
    assert jobs.ours() == ["aq/job/a"]


async def test_a_rejected_result_that_was_merged_by_hand_goes(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.FAILED, head=jobs.result("a"))
    jobs.merge("a")
    await jobs.one.mirror()
    assert lines(await jobs.one.sweep(), "branch") == ["removed branch aq/job/a: it is merged"]
    assert jobs.ours() == ["aq/wip/a/1"]


async def test_branches_of_unknown_jobs_and_of_others_stay(jobs: JobsOnARemote) -> None:
    jobs.result("theirs")
    jobs.remote.commit({"x": "y"}, branch="aq/other")
    jobs.remote.commit({"x": "y"}, branch="aq/job/deep/er")
    await jobs.one.mirror()
    swept = await jobs.one.sweep()
    assert swept.swept == ()
    assert swept.notes == ("notes: branches of a job that are unknown stay: theirs",)
    assert len(jobs.ours()) == 4


async def test_twice_is_the_same_as_once_and_two_machines_agree(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    jobs.fates.say("b", Stage.TESTING, head=jobs.result("b"))
    jobs.merge("a")
    for machine in (jobs.one, jobs.two):
        mirror = await machine.mirror()
        for name in ("aq/job/a", "aq/wip/b/1"):
            await mirror.fetch_branch(name)
    assert len((await jobs.one.sweep()).changed) == 2
    assert (await jobs.one.sweep()).swept == ()
    left = lines(await jobs.two.sweep(), "branch")
    assert left in ([], ["removed branch aq/job/a: it is merged"]), "only what its mirror knew"
    assert (await jobs.two.sweep()).swept == ()
    assert jobs.ours() == ["aq/job/b", "aq/wip/b/1"]


async def test_a_branch_that_moved_since_it_was_judged_is_kept(jobs: JobsOnARemote) -> None:
    judged = jobs.result("a")
    mirror = await jobs.one.mirror()
    moved = jobs.remote.commit({"new.txt": "work"}, branch="aq/job/a")
    wip = jobs.remote.commit_of("aq/wip/a/1")
    assert wip is not None
    stay = await delete_branches(
        mirror, {"aq/job/a": judged, "aq/wip/a/1": wip, "aq/wip/gone/1": judged}
    )
    assert stay == {"aq/job/a": f"it is now at {moved[:12]}"}
    assert jobs.ours() == ["aq/job/a"]


async def test_a_job_that_is_reopened_while_its_branches_are_judged_keeps_them(
    jobs: JobsOnARemote,
) -> None:
    jobs.fates.say("a", Stage.FAILED, head=jobs.result("a"), since=LONG_AGO)
    await jobs.one.mirror()
    jobs.fates.then = lambda: jobs.fates.say("a", Stage.QUEUED)
    await jobs.one.sweep()
    assert jobs.ours() == ["aq/job/a", "aq/wip/a/1"]


async def test_a_dry_run_says_what_would_go_and_touches_nothing(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    mirror = await jobs.one.mirror()
    await mirror.fetch_branch("aq/wip/a/1")
    before = {
        path: path.lstat().st_mtime_ns
        for root in (jobs.one.data_dir.root, jobs.remote.path)
        for path in root.rglob("*")
    }
    told = await jobs.one.sweep(dry_run=True)
    assert told.summary() == "would have removed 2 branches"
    for path, changed in before.items():
        assert path.lstat().st_mtime_ns == changed, path
    assert jobs.ours() == ["aq/job/a", "aq/wip/a/1"]


async def test_without_a_coordinator_no_branch_is_touched(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    await jobs.one.mirror()
    jobs.fates.away = True
    told = await jobs.one.sweep()
    assert told.swept == ()
    assert told.notes == ("branches were skipped, as their jobs are unknown: it is away",)
    assert jobs.ours() == ["aq/job/a", "aq/wip/a/1"]


async def test_a_remote_that_is_away_is_told_and_the_rest_goes_on(jobs: JobsOnARemote) -> None:
    jobs.fates.say("a", Stage.SHIPPED, head=jobs.result("a"))
    await jobs.one.mirror()
    jobs.remote.path.rename(jobs.remote.path.with_suffix(".away"))
    told = await jobs.one.sweep()
    assert told.swept == ()
    assert told.notes[0].startswith("branches of notes were skipped: ")
