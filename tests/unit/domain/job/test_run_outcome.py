"""The effect of worker reports on a job: progress, success, shipping."""

from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, Fenced, IllegalTransition, Invalid
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import (
    EDITED,
    PROTECTED,
    Job,
    Preemption,
    Result,
    ShipRequest,
    Stage,
    Terms,
)
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.run_outcome import (
    NO_PROGRESS,
    Progress,
    complete_ship,
    fail,
    record_progress,
    start_building,
    succeed,
    verify_passed,
)
from tests.support.builders import NOON, a_checkpoint, a_job, a_running_job, a_shipping_job, after

PASSED = Progress(verify={"passed": True})
ASKED_BACK = Preemption(by="job-9", reason="critical", deadline=after(60))
AUTOMATIC = Terms(verify=True, review_by_people=False)


def an_assigned_job(**fields: object) -> Job:
    return a_running_job(**({"stage": Stage.ASSIGNED} | fields))


def kinds(change: JobChange | None) -> list[str]:
    assert change is not None
    return [event.type for event in change.events]


@pytest.mark.parametrize(
    "word",
    [
        record_progress,
        start_building,
        partial(succeed, wants=Stage.TESTING),
        complete_ship,
        lambda job, factory_id, epoch, told, now: fail(
            job, factory_id, epoch, Result.CRASH, "", told, now=now
        ),
    ],
    ids=["progress", "start", "succeed", "shipped", "fail"],
)
def test_no_report_is_accepted_without_the_lease(
    word: Callable[..., JobChange | None],
) -> None:
    for factory_id, epoch in (("linux-1", 1), ("mac-1", 0), ("mac-1", 2)):
        with pytest.raises(Fenced):
            word(a_running_job(), factory_id, epoch, PASSED, now=NOON)
    with pytest.raises(Fenced):
        word(a_job(lease_epoch=1), "mac-1", 1, PASSED, now=NOON)


def test_progress_events_are_written_in_a_fixed_order() -> None:
    progress = Progress(
        checkpoint=a_checkpoint("def"),
        usage=Usage(tokens_in=5),
        verify={"passed": False, "output": "red"},
        diff={"files": 3},
        note="half way",
    )
    change = record_progress(a_running_job(), "mac-1", 1, progress, now=after(5))
    assert change is not None
    assert kinds(change) == ["checkpoint", "usage", "verify_failed", "diff", "note"]
    data = [event.data for event in change.events]
    assert data[0]["commit"] == "def"
    assert data[1]["tokensIn"] == 5
    assert data[2:] == [progress.verify, {"files": 3}, {"note": "half way"}]
    assert (change.after.stage, change.after.head) == (Stage.BUILDING, "def")
    assert change.after.verified is False
    assert change.after.lease == a_running_job().lease


def test_progress_without_news_changes_nothing() -> None:
    job = a_running_job(checkpoint=a_checkpoint())
    assert record_progress(job, "mac-1", 1, NO_PROGRESS, now=NOON) is None
    assert record_progress(job, "mac-1", 1, Progress(checkpoint=a_checkpoint()), now=NOON) is None


def test_newer_commit_resets_lost_leases_and_voids_approvals() -> None:
    job = a_running_job(checkpoint=a_checkpoint("abc"), lost=2, approvals=("user:bob",))
    change = record_progress(job, "mac-1", 1, Progress(checkpoint=a_checkpoint("def")), now=NOON)
    assert change is not None
    assert (change.after.head, change.after.lost, change.after.approvals) == ("def", 0, ())


def test_same_commit_on_another_branch_is_not_progress() -> None:
    job = a_running_job(checkpoint=a_checkpoint("abc"), lost=2, approvals=("user:bob",))
    progress = Progress(checkpoint=a_checkpoint("abc", branch="aq/wip/job-1/2", session_id="s"))
    change = record_progress(job, "mac-1", 1, progress, now=NOON)
    assert change is not None
    assert change.after.checkpoint == progress.checkpoint
    assert (change.after.lost, change.after.approvals) == (2, ("user:bob",))


def test_paths_out_of_scope_write_a_scope_warning() -> None:
    progress = Progress(diff={"outOfScope": ["README.md"]})
    assert kinds(record_progress(a_running_job(), "mac-1", 1, progress, now=NOON)) == [
        "scope_warning"
    ]


def test_protected_path_flags_the_job_until_a_later_diff_drops_it() -> None:
    job = a_running_job(flags=("other",))
    touched = Progress(diff={"protected": [".ci/build.yml"]})
    flagged = record_progress(job, "mac-1", 1, touched, now=NOON)
    assert flagged is not None
    assert flagged.after.flags == ("other", PROTECTED)
    again = record_progress(flagged.after, "mac-1", 1, touched, now=NOON)
    assert again is not None
    assert again.after.flags == ("other", PROTECTED)
    gone = record_progress(again.after, "mac-1", 1, Progress(diff={"protected": []}), now=NOON)
    assert gone is not None
    assert gone.after.flags == ("other",)


def test_verify_passes_only_with_an_explicit_true() -> None:
    assert verify_passed({"passed": True})
    assert not verify_passed({})
    assert not verify_passed({"passed": "yes"})


def test_repeated_start_report_starts_the_run_once() -> None:
    first = start_building(an_assigned_job(), "mac-1", 1, Progress(note="hello"), now=after(1))
    assert first is not None
    assert kinds(first) == ["note", "started"]
    assert first.after.stage is Stage.BUILDING
    assert first.events[1].data == {
        "factoryId": "mac-1",
        "epoch": 1,
        "runId": "job-1.1",
        "engine": "claude",
    }
    assert start_building(first.after, "mac-1", 1, NO_PROGRESS, now=after(2)) is None
    assert kinds(start_building(first.after, "mac-1", 1, Progress(note="x"), now=after(2))) == [
        "note"
    ]


def test_worker_with_a_ship_step_cannot_start_a_run() -> None:
    with pytest.raises(IllegalTransition, match="is testing and cannot become building"):
        start_building(a_shipping_job(), "mac-1", 2, NO_PROGRESS, now=NOON)


@pytest.mark.parametrize(
    ("terms", "wants", "stage"),
    [
        (AUTOMATIC, Stage.TESTING, Stage.TESTING),
        (AUTOMATIC, Stage.REVIEW, Stage.REVIEW),
        (Terms(verify=True, review_by_people=True), Stage.TESTING, Stage.REVIEW),
        (Terms(verify=False, review_by_people=False), Stage.TESTING, Stage.REVIEW),
    ],
    ids=["automatic", "the worker wants a look", "review by people", "no verify"],
)
def test_successful_work_goes_to_review_unless_none_is_required(
    terms: Terms, wants: Stage, stage: Stage
) -> None:
    job = a_running_job(
        terms=terms, lost=2, follow_ups=("use tabs",), preemption=ASKED_BACK, attempts=1
    )
    changed = replace(PASSED, checkpoint=a_checkpoint("def"))
    change = succeed(job, "mac-1", 1, changed, wants=wants, now=after(9))
    after_ = change.after
    assert after_.stage is stage
    assert (after_.lease, after_.preemption, after_.ship) == (None, None, None)
    assert (after_.result, after_.reason, after_.lost, after_.follow_ups) == (
        Result.OK,
        None,
        0,
        (),
    )
    assert (after_.head, after_.attempts, after_.lease_epoch) == ("def", 1, 1)
    assert change.free == ("slot/mac-1/0",)
    last = "review_requested" if stage is Stage.REVIEW else "tested"
    assert kinds(change) == ["checkpoint", "verify_passed", last]
    assert change.events[-1].data == {"commit": "def"}


def test_work_without_required_review_ships_by_policy() -> None:
    job = a_running_job(terms=replace(AUTOMATIC, auto_ship=True), checkpoint=a_checkpoint())
    change = succeed(job, "mac-1", 1, PASSED, wants=Stage.TESTING, now=NOON)
    assert kinds(change) == ["verify_passed", "tested", "ship_requested"]
    assert change.after.ship == ShipRequest(by="policy", commit="abc", at=NOON)


def test_work_with_required_review_is_not_shipped_by_policy_before() -> None:
    job = a_running_job(terms=Terms(verify=True, auto_ship=True))
    change = succeed(job, "mac-1", 1, PASSED, wants=Stage.TESTING, now=NOON)
    assert (change.after.stage, change.after.ship) == (Stage.REVIEW, None)


@pytest.mark.parametrize(
    ("told", "wants"),
    [
        (PASSED, Stage.REVIEW),
        (replace(PASSED, diff={"protected": ["uv.lock"]}), Stage.TESTING),
    ],
    ids=["by asking for a look", "by the diff"],
)
def test_change_to_a_protected_path_waits_for_review_despite_policy(
    told: Progress, wants: Stage
) -> None:
    job = a_running_job(terms=replace(AUTOMATIC, auto_ship=True))
    change = succeed(job, "mac-1", 1, told, wants=wants, now=NOON)
    assert (change.after.stage, change.after.flags) == (Stage.REVIEW, (PROTECTED,))
    assert change.after.ship is None


@pytest.mark.parametrize("told", [NO_PROGRESS, Progress(verify={"passed": False})])
def test_success_without_a_passing_verify_is_rejected(told: Progress) -> None:
    with pytest.raises(Invalid, match="no passing result was reported"):
        succeed(a_running_job(terms=AUTOMATIC), "mac-1", 1, told, wants=Stage.TESTING, now=NOON)


def test_verify_may_have_passed_in_an_earlier_report_of_the_run() -> None:
    job = a_running_job(terms=AUTOMATIC, verified=True)
    assert (
        succeed(job, "mac-1", 1, NO_PROGRESS, wants=Stage.TESTING, now=NOON).after.verified is True
    )


@pytest.mark.parametrize(
    ("job", "epoch"), [(an_assigned_job(), 1), (a_shipping_job(), 2)], ids=["assigned", "shipping"]
)
def test_only_a_started_run_can_succeed(job: Job, epoch: int) -> None:
    with pytest.raises(IllegalTransition):
        succeed(job, "mac-1", epoch, NO_PROGRESS, wants=Stage.TESTING, now=NOON)


def test_ship_step_reports_its_intent_and_then_completion() -> None:
    job = a_shipping_job(reason="an earlier conflict")
    intent = record_progress(job, "mac-1", 2, Progress(note="push abc to main"), now=NOON)
    assert intent is not None
    assert kinds(intent) == ["ship_intent"]
    change = complete_ship(intent.after, "mac-1", 2, Progress(usage=Usage()), now=after(5))
    assert kinds(change) == ["usage", "shipped"]
    assert change.events[-1].data == {"factoryId": "mac-1", "epoch": 2, "commit": "abc"}
    after_ = change.after
    assert (after_.stage, after_.result, after_.reason) == (Stage.SHIPPED, Result.OK, None)
    assert (after_.lease, after_.ship) == (None, None)
    assert change.free == ("slot/mac-1/0", "name/notes/fix-login")


def test_ship_step_must_deliver_the_approved_commit() -> None:
    progress = Progress(checkpoint=a_checkpoint("def"))
    for word in (record_progress, complete_ship):
        with pytest.raises(Conflict, match="ships commit abc, which was decided on, and not def"):
            word(a_shipping_job(), "mac-1", 2, progress, now=NOON)
    same = Progress(checkpoint=a_checkpoint("abc", session_id="s"))
    assert complete_ship(a_shipping_job(), "mac-1", 2, same, now=NOON).after.head == "abc"


def test_commits_by_people_during_shipping_need_a_new_decision() -> None:
    progress = Progress(checkpoint=a_checkpoint("def"), diff={"protected": ["ci.yml"]})
    job = a_shipping_job(approvals=("user:bob",), verified=True)
    change = fail(job, "mac-1", 2, Result.MERGE_CONFLICT, "people went on", progress, now=NOON)
    assert kinds(change) == ["checkpoint", "diff", "ship_failed"]
    after_ = change.after
    assert (after_.stage, after_.head, after_.approvals) == (Stage.TESTING, "def", ())
    assert (after_.verified, after_.ship, after_.lease) == (None, None, None)
    assert after_.flags == (PROTECTED, EDITED)
    with pytest.raises(Conflict, match="which was decided on"):
        fail(job, "mac-1", 2, Result.TIMEOUT, "slow", progress, now=NOON)


def test_run_cannot_complete_a_ship_step() -> None:
    with pytest.raises(
        IllegalTransition, match="is building and cannot become shipped; a run ends"
    ):
        complete_ship(a_running_job(), "mac-1", 1, NO_PROGRESS, now=NOON)


def test_composite_ships_only_with_a_passing_verify() -> None:
    job = a_shipping_job(kind="composite", checkpoint=None)
    with pytest.raises(Invalid, match="accepted by its verify"):
        complete_ship(job, "mac-1", 2, NO_PROGRESS, now=NOON)
    progress = Progress(verify={"passed": True})
    assert complete_ship(job, "mac-1", 2, progress, now=NOON).after.stage is Stage.SHIPPED
