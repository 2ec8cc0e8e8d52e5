"""Operator actions on a job."""

from functools import partial

import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, Forbidden, IllegalTransition, Invalid
from gigafactory.domain.job.job import (
    EDITED,
    PROTECTED,
    Exclusion,
    Job,
    Offer,
    Result,
    ShipRequest,
    Stage,
    Step,
    Terms,
)
from gigafactory.domain.job.operator_actions import (
    approve,
    cancel,
    override_scope,
    promote,
    reject,
    release,
    request_changes,
    request_review,
    request_ship,
    requeue,
)
from gigafactory.domain.job.run_outcome import NO_PROGRESS, succeed
from tests.support.builders import (
    NOON,
    a_checkpoint,
    a_job,
    a_lease,
    a_running_job,
    a_shipping_job,
    after,
)

OFFER = Offer(number=1, factory_id="mac-1", engine=None, step=Step.SHIP, expires_at=after(15))
ASKED = ShipRequest(by="user:ann", commit="abc", at=NOON)
TWO_OF_THREE = Terms(reviewers=("ann", "bob", "cat"), quorum=2)


def in_review(**fields: object) -> Job:
    return replace(a_job(stage=Stage.REVIEW, checkpoint=a_checkpoint()), **fields)


def in_testing(**fields: object) -> Job:
    return replace(a_job(stage=Stage.TESTING, checkpoint=a_checkpoint()), **fields)


def test_approval_moves_the_job_to_testing_and_records_reviewer_and_commit() -> None:
    change = approve(in_review(), "user:bob", "fine", "abc", now=after(5))
    assert (change.after.stage, change.after.approvals) == (Stage.TESTING, ("user:bob",))
    assert change.after.ship is None
    submitted, approved = change.events
    assert (submitted.type, submitted.data) == (
        "review_submitted",
        {"by": "user:bob", "decision": "approve", "comment": "fine", "commit": "abc"},
    )
    assert (approved.type, approved.data) == ("approved", {"by": ["user:bob"], "commit": "abc"})


def test_work_edited_after_its_approval_is_approved_again_in_testing() -> None:
    job = in_testing(
        terms=TWO_OF_THREE, flags=(EDITED,), submitted_by="user:eve", reason="people went on"
    )
    first = approve(job, "user:bob", "", "abc", now=NOON).after
    assert (first.stage, first.approvals, first.unapproved) == (
        Stage.TESTING,
        ("user:bob",),
        True,
    )
    with pytest.raises(IllegalTransition, match="abc has to be approved first"):
        request_ship(first, "user:bob", "abc", now=NOON)
    second = approve(first, "user:cat", "", "abc", now=NOON).after
    assert (second.stage, second.flags, second.reason) == (Stage.TESTING, (), None)
    assert request_ship(second, "user:bob", "abc", now=NOON).after.ship is not None


def test_quorum_counts_each_named_reviewer_once() -> None:
    first = approve(in_review(terms=TWO_OF_THREE), "user:bob", "", "abc", now=NOON)
    assert (first.after.stage, first.after.approvals) == (Stage.REVIEW, ("user:bob",))
    assert [event.type for event in first.events] == ["review_submitted"]
    again = approve(first.after, "user:bob", "", "abc", now=NOON)
    assert (again.after.stage, again.after.approvals) == (Stage.REVIEW, ("user:bob",))
    second = approve(again.after, "user:cat", "", "abc", now=NOON)
    assert second.after.stage is Stage.TESTING
    assert second.events[-1].data == {"by": ["user:bob", "user:cat"], "commit": "abc"}


def test_only_named_reviewers_other_than_the_author_can_approve() -> None:
    job = in_review(terms=TWO_OF_THREE)
    with pytest.raises(
        Forbidden, match="user:dan does not review job job-1; its reviewers are ann"
    ):
        approve(job, "user:dan", "", "abc", now=NOON)
    with pytest.raises(Forbidden, match="user:ann submitted job job-1; another"):
        approve(job, "user:ann", "", "abc", now=NOON)


def test_unnamed_reviewer_can_neither_reject_nor_request_changes_in_review() -> None:
    job = in_review(terms=TWO_OF_THREE)
    with pytest.raises(Forbidden, match="user:dan does not review job job-1"):
        reject(job, "user:dan", "no", None, now=NOON)
    with pytest.raises(Forbidden, match="user:dan does not review job job-1"):
        request_changes(job, "user:dan", "more", None, now=NOON)
    assert reject(job, "user:ann", "my mistake", None, now=NOON).after.stage is Stage.FAILED
    sent = request_changes(in_testing(terms=TWO_OF_THREE), "user:dan", "more", None, now=NOON)
    assert sent.after.stage is Stage.QUEUED


def test_anyone_can_approve_when_no_reviewers_are_named() -> None:
    assert approve(in_review(), "user:ann", "", "abc", now=NOON).after.stage is Stage.TESTING


def test_review_request_names_the_reviewers() -> None:
    change = request_review(in_review(), "user:ann", ("@bob", "cat", "bob"), 2, "please", now=NOON)
    terms = change.after.terms
    assert (change.after.stage, terms.reviewers, terms.quorum) == (Stage.REVIEW, ("bob", "cat"), 2)
    (event,) = change.events
    assert (event.type, event.data) == (
        "review_asked",
        {
            "by": "user:ann",
            "reviewers": ["bob", "cat"],
            "quorum": 2,
            "comment": "please",
            "commit": "abc",
        },
    )
    with pytest.raises(Forbidden, match="its reviewers are bob, cat"):
        approve(change.after, "user:dan", "", "abc", now=NOON)


def test_review_requested_during_the_run_is_required_afterwards() -> None:
    job = a_running_job(terms=Terms(verify=True, review_by_people=False), verified=True)
    asked = request_review(job, "user:bob", (), None, "", now=NOON).after
    assert asked.lease == job.lease
    done = succeed(asked, "mac-1", 1, NO_PROGRESS, wants=Stage.TESTING, now=NOON)
    assert done.after.stage is Stage.REVIEW
    assert done.after.flags == ()


def test_approval_of_a_removed_reviewer_does_not_count() -> None:
    job = in_review(terms=TWO_OF_THREE, approvals=("user:bob",))
    kept = request_review(job, "user:bob", ("bob", "cat"), None, "", now=NOON).after
    assert (kept.approvals, kept.terms.quorum) == (("user:bob",), 2)
    job = in_review(approvals=("user:ann", "user:dan"), terms=Terms(quorum=3))
    named = request_review(job, "user:bob", ("ann", "bob", "cat", "eve"), 3, "", now=NOON).after
    assert named.approvals == ()


@pytest.mark.parametrize(
    ("terms", "reviewers", "quorum", "fault"),
    [
        (TWO_OF_THREE, ("bob", "dan"), 2, "reviewers: found dan; the job names ann, bob, cat"),
        (TWO_OF_THREE, ("bob", "cat"), 1, "quorum: found 1; the job asks for 2 already"),
        (Terms(), ("ann", "bob"), 2, "quorum: found 2, and 1 of those named can approve"),
        (Terms(), (), 2, "quorum: found 2, and 0 of those named can approve"),
        (Terms(), ("ann",), None, "quorum: found 1, and 0 of those named can approve"),
        (Terms(), ("bob", "b b"), None, "reviewers: found b b; expected a person such as @alice"),
    ],
    ids=["others", "fewer", "the author", "none named", "only the author", "no name"],
)
def test_review_request_rejects_weaker_or_unreachable_terms(
    terms: Terms, reviewers: tuple[str, ...], quorum: int | None, fault: str
) -> None:
    with pytest.raises(Invalid, match=fault):
        request_review(in_review(terms=terms), "user:bob", reviewers, quorum, "", now=NOON)


def test_review_cannot_be_requested_in_testing() -> None:
    with pytest.raises(IllegalTransition, match="request-review is for jobs that are building"):
        request_review(in_testing(), "user:bob", (), None, "", now=NOON)


@pytest.mark.parametrize(
    ("fields", "ships"),
    [
        ({"verified": True}, True),
        ({"verified": None}, False),
        ({"verified": False}, False),
        ({"verified": True, "flags": (PROTECTED,)}, False),
    ],
    ids=["verified", "no verify", "red", "protected path"],
)
def test_approved_work_ships_by_policy_only_if_verified_and_unprotected(
    fields: dict[str, object], *, ships: bool
) -> None:
    job = in_review(terms=Terms(auto_ship=True), **fields)
    change = approve(job, "user:bob", "", "abc", now=NOON)
    assert change.after.stage is Stage.TESTING
    asked = ShipRequest(by="policy", commit="abc", at=NOON) if ships else None
    assert change.after.ship == asked
    assert (change.events[-1].type == "ship_requested") is ships


@pytest.mark.parametrize(
    "decide",
    [
        partial(approve, in_review(), "user:bob", "fine"),
        partial(reject, in_review(), "user:bob", "wrong"),
        partial(request_changes, in_review(), "user:bob", "use tabs"),
        partial(request_ship, in_testing(), "user:bob"),
    ],
    ids=["approve", "reject", "request-changes", "ship"],
)
def test_decision_on_an_older_commit_is_rejected(decide: partial[object]) -> None:
    with pytest.raises(Conflict, match="changed since you looked at commit old: now abc"):
        decide("old", now=NOON)
    decide("abc", now=NOON)


def test_decision_on_work_without_a_commit_is_rejected() -> None:
    with pytest.raises(Conflict, match="looked at commit abc: now it has none"):
        approve(in_review(checkpoint=None), "user:bob", "", "abc", now=NOON)


@pytest.mark.parametrize("job", [in_review(), in_testing(ship=ASKED, offer=OFFER)])
def test_rejection_fails_the_job_and_drops_its_ship_request_and_offer(job: Job) -> None:
    change = reject(job, "user:bob", "wrong", None, now=NOON)
    after_ = change.after
    assert (after_.stage, after_.result, after_.reason) == (Stage.FAILED, Result.REJECTED, "wrong")
    assert (after_.ship, after_.offer) == (None, None)
    assert change.events[0].data == {"by": "user:bob", "reason": "wrong", "commit": "abc"}
    assert change.free == ("name/notes/fix-login",)


@pytest.mark.parametrize("job", [in_review(), in_testing(ship=ASKED, offer=OFFER)])
def test_requested_changes_become_instructions_of_the_next_run(job: Job) -> None:
    job = replace(
        job,
        follow_ups=("first",),
        approvals=("user:cat",),
        not_before=NOON,
        verified=True,
        result=Result.OK,
    )
    change = request_changes(job, "user:bob", "use tabs", None, now=after(5))
    after_ = change.after
    assert (after_.stage, after_.follow_ups) == (Stage.QUEUED, ("first", "use tabs"))
    assert (after_.approvals, after_.ship, after_.offer, after_.not_before) == (
        (),
        None,
        None,
        None,
    )
    assert (after_.verified, after_.result) == (None, None)
    assert after_.checkpoint == a_checkpoint()
    assert change.events[0].data == {"by": "user:bob", "comment": "use tabs", "commit": "abc"}


def test_decision_that_needs_a_reason_is_rejected_without_one() -> None:
    failed = a_job(stage=Stage.FAILED, result=Result.SCOPE_VIOLATION)
    with pytest.raises(Invalid, match="reason: is empty; say why you reject it"):
        reject(in_review(), "user:bob", " ", None, now=NOON)
    with pytest.raises(Invalid, match="say why you want changes"):
        request_changes(in_review(), "user:bob", "", None, now=NOON)
    with pytest.raises(Invalid, match="say why you override the scope"):
        override_scope(failed, "user:bob", "\n", now=NOON)


def test_job_cannot_be_stopped_while_a_factory_ships_it() -> None:
    job = a_shipping_job()
    with pytest.raises(IllegalTransition, match="cannot become cancelled; mac-1 is shipping it"):
        cancel(job, "user:ann", "", now=NOON)
    with pytest.raises(IllegalTransition, match="cannot become failed; mac-1 is shipping it"):
        reject(job, "user:bob", "wrong", None, now=NOON)
    with pytest.raises(IllegalTransition, match="cannot become queued; mac-1 is shipping it"):
        request_changes(job, "user:bob", "use tabs", None, now=NOON)
    with pytest.raises(IllegalTransition, match="release is for jobs that are assigned, building"):
        release(job, "user:ann", "", now=NOON)


def test_ship_request_gives_the_job_a_ship_step() -> None:
    change = request_ship(in_testing(), "user:ann", "abc", now=NOON)
    assert (change.after.stage, change.after.step) == (Stage.TESTING, Step.SHIP)
    assert change.after.ship == ASKED
    assert [event.type for event in change.events] == ["ship_requested"]


@pytest.mark.parametrize("job", [a_shipping_job(), in_testing(ship=ASKED)])
def test_second_ship_request_is_rejected(job: Job) -> None:
    with pytest.raises(Conflict, match="already asked to ship, by user:ann"):
        request_ship(job, "user:bob", "abc", now=NOON)


def test_ship_request_ships_a_job_with_ship_none_at_once() -> None:
    job = in_testing(terms=Terms(ship="none"), reason="x")
    change = request_ship(job, "user:ann", "abc", now=NOON)
    assert (change.after.stage, change.after.result) == (Stage.SHIPPED, Result.OK)
    assert (change.after.ship, change.after.reason) == (None, None)
    assert [event.type for event in change.events] == ["ship_requested", "shipped"]
    assert change.free == ("name/notes/fix-login",)


def test_scope_override_sends_the_job_to_review_and_undoes_the_attempt() -> None:
    job = a_job(stage=Stage.FAILED, result=Result.SCOPE_VIOLATION, attempts=2, approvals=("x",))
    change = override_scope(job, "user:bob", "it belongs here", now=NOON)
    assert (change.after.stage, change.after.attempts) == (Stage.REVIEW, 1)
    assert change.after.approvals == ()
    assert change.take == ("name/notes/fix-login",)
    assert change.events[0].type == "scope_overridden"


@pytest.mark.parametrize("result", [result for result in Result if result != "scope_violation"])
def test_only_a_scope_violation_can_be_overridden(result: Result) -> None:
    job = a_job(stage=Stage.FAILED, result=result)
    with pytest.raises(IllegalTransition, match="failed and cannot become review; only a scope"):
        override_scope(job, "user:bob", "why", now=NOON)


@pytest.mark.parametrize("stage", [Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED])
@pytest.mark.parametrize("fresh", [False, True])
def test_requeued_job_starts_its_attempts_again(stage: Stage, *, fresh: bool) -> None:
    job = a_job(
        stage=stage,
        attempts=3,
        lost=3,
        preempted=2,
        not_before=after(60),
        exclusions=(Exclusion("mac-1", after(60)),),
        result=Result.POISON,
        reason="x",
        approvals=("user:bob",),
        checkpoint=a_checkpoint(),
        lease_epoch=7,
    )
    change = requeue(job, "user:ann", fresh=fresh, now=NOON)
    after_ = change.after
    assert (after_.stage, after_.attempts, after_.lost, after_.preempted) == (Stage.QUEUED, 0, 0, 0)
    assert (after_.not_before, after_.exclusions, after_.approvals) == (None, (), ())
    assert (after_.result, after_.reason, after_.lease_epoch) == (None, None, 7)
    assert after_.checkpoint == (None if fresh else job.checkpoint)
    assert change.take == ("name/notes/fix-login",)
    assert change.events[0].data == {"by": "user:ann", "fresh": fresh, "from": stage}


def test_template_of_a_schedule_cannot_be_requeued() -> None:
    job = a_job(stage=Stage.CANCELLED, terms=Terms(schedule="0 6 * * *"))
    with pytest.raises(IllegalTransition, match="template of a schedule; submit it again"):
        requeue(job, "user:ann", fresh=False, now=NOON)


def test_cancelled_run_loses_its_epoch_at_once_and_its_holds_on_stopping() -> None:
    change = cancel(a_running_job(), "user:ann", "not needed", now=NOON)
    after_ = change.after
    assert (after_.stage, after_.lease, after_.lease_epoch) == (Stage.CANCELLED, None, 2)
    assert after_.ending == (a_lease(),)
    assert (after_.result, after_.reason) == (Result.CANCELLED, "not needed")
    assert change.free == ("name/notes/fix-login",)
    assert [event.type for event in change.events] == ["cancelled"]


def test_cancelled_waiting_job_loses_its_offer_and_ship_request() -> None:
    change = cancel(in_testing(ship=ASKED, offer=OFFER), "user:ann", "", now=NOON)
    assert (change.after.offer, change.after.ship, change.after.reason) == (None, None, None)
    assert (change.after.lease_epoch, change.after.ending) == (0, ())


def test_superseded_job_gets_the_superseded_result() -> None:
    change = cancel(a_job(), "user:ann", "by job-2", now=NOON, result=Result.SUPERSEDED)
    assert (change.after.result, change.events[0].type) == (Result.SUPERSEDED, "superseded")


@pytest.mark.parametrize("stage", [Stage.SHIPPED, Stage.FAILED, Stage.CANCELLED])
def test_finished_job_cannot_be_cancelled(stage: Stage) -> None:
    with pytest.raises(IllegalTransition, match=f"is {stage} and cannot become cancelled"):
        cancel(a_job(stage=stage), "user:ann", "", now=NOON)


def test_promoted_job_moves_to_the_front_and_keeps_its_start_time() -> None:
    change = promote(a_job(not_before=after(60)), "user:ann", now=NOON)
    assert (change.after.front, change.after.not_before) == (True, after(60))
    assert [event.type for event in change.events] == ["promoted"]


def test_operator_can_release_a_running_job_into_the_queue() -> None:
    change = release(a_running_job(attempts=1, lost=2), "user:ann", "mac-1 is sold", now=NOON)
    after_ = change.after
    assert (after_.stage, after_.lease, after_.lease_epoch) == (Stage.QUEUED, None, 2)
    assert (after_.ending, change.free) == ((a_lease(),), ())
    assert (after_.result, after_.attempts, after_.lost) == (Result.RELEASED, 1, 2)
    (event,) = change.events
    assert (event.type, event.actor, event.stage) == ("released", "user:ann", Stage.QUEUED)


def test_work_passes_only_with_the_commit_that_was_looked_at() -> None:
    missing = "commit: is missing; send the commit that was looked at, now abc"
    with pytest.raises(Invalid, match=missing):
        approve(in_review(), "user:bob", "", None, now=NOON)
    with pytest.raises(Invalid, match=missing):
        request_ship(in_testing(), "user:bob", None, now=NOON)
    assert approve(in_review(checkpoint=None), "user:bob", "", None, now=NOON).events
