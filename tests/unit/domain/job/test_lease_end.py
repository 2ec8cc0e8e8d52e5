"""Ends of leases: handed back, expired, revoked, preempted."""

import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict, IllegalTransition
from gigafactory.domain.job.change import LeaseExpiredGuard
from gigafactory.domain.job.job import (
    Exclusion,
    Job,
    Preemption,
    Result,
    Stage,
    Step,
)
from gigafactory.domain.job.lease import (
    EXCLUSION_TTL,
    PREEMPTION_GRACE,
    expire,
    grant,
    hand_back,
    release_revoked,
    request_preemption,
    revoke_lease,
)
from gigafactory.domain.job.retry import LOST_LEASES_MAX
from tests.support.builders import (
    NOON,
    TTL,
    a_checkpoint,
    a_job,
    a_lease,
    a_running_job,
    a_shipping_job,
    after,
)

ASKED_BACK = Preemption(by="job-9", reason="critical", deadline=after(60))


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (Result.RATE_LIMITED, "rate_limited"),
        (Result.ENGINE_UNAVAILABLE, "released"),
        (Result.OVERLOADED, "released"),
        (Result.PREEMPTED, "preempted"),
        (Result.RELEASED, "released"),
    ],
)
def test_job_handed_back_is_queued_without_a_failed_attempt(result: Result, kind: str) -> None:
    job = a_running_job(attempts=1, lost=2, preemption=ASKED_BACK, preempted=1)
    change = hand_back(job, result, "why", actor="factory:mac-1", now=after(5))
    after_ = change.after
    assert (after_.stage, after_.attempts, after_.lease_epoch) == (Stage.QUEUED, 1, 1)
    assert (after_.lease, after_.preemption, after_.not_before) == (None, None, None)
    assert (after_.result, after_.reason) == (result, "why")
    assert after_.exclusions == (Exclusion("mac-1", after(5) + EXCLUSION_TTL),)
    assert after_.lost == 0, "a factory that reports is not lost"
    assert change.free == ("slot/mac-1/0",)
    evicted = result is Result.PREEMPTED
    assert (after_.front, after_.preempted) == (evicted, 1 + evicted)
    assert change.events[0].type == kind


def test_job_handed_back_can_get_a_start_delay() -> None:
    change = hand_back(
        a_running_job(), Result.OVERLOADED, "", actor="x", now=NOON, not_before=after(30)
    )
    assert change.after.not_before == after(30)


def test_ship_step_handed_back_stays_in_testing_and_requested() -> None:
    job = a_shipping_job(result=Result.OK)
    change = hand_back(job, Result.RELEASED, "drained", actor="x", now=NOON)
    assert (change.after.stage, change.after.step) == (Stage.TESTING, Step.SHIP)
    assert (change.after.result, change.after.reason) == (Result.OK, "drained")
    assert change.free == ("slot/mac-1/0",)


def test_expired_lease_is_revoked_under_guard_and_keeps_the_checkpoint() -> None:
    job = a_running_job(checkpoint=a_checkpoint(), attempts=1)
    change = expire(job, now=after(91))
    after_ = change.after
    assert (after_.stage, after_.lease, after_.lease_epoch) == (Stage.QUEUED, None, 2)
    assert (after_.checkpoint, after_.attempts, after_.lost) == (job.checkpoint, 1, 1)
    assert (after_.result, after_.reason) == (Result.LOST, "the lease ran out")
    assert change.guards == (LeaseExpiredGuard("job-1", 1, after(91)),)
    assert change.free == ("slot/mac-1/0",)
    (event,) = change.events
    assert (event.type, event.actor, event.data["epoch"]) == ("lease_expired", "system:reaper", 1)


def test_restarted_factory_that_forgot_a_run_loses_its_lease_at_once() -> None:
    change = expire(a_running_job(), now=NOON, actor="factory:mac-1", restarted=True)
    assert change.guards == ()
    assert change.after.reason == "the factory restarted without this run"
    assert change.after.lost == 1


def test_third_lease_lost_in_a_row_without_new_checkpoint_is_dead_lettered() -> None:
    job = a_job()
    for lost, instance in ((1, "a"), (2, "b")):
        granted = grant(job, "mac-1", instance, None, now=NOON, ttl=TTL).after
        job = expire(granted, now=after(91)).after
        assert (job.stage, job.lost) == (Stage.QUEUED, lost)
    granted = grant(job, "mac-1", "c", None, now=NOON, ttl=TTL, seats=("seat",)).after
    change = expire(granted, now=after(91))
    assert (change.after.stage, change.after.result) == (Stage.DEAD_LETTER, Result.POISON)
    assert "3 leases in a row" in (change.after.reason or "")
    assert [event.type for event in change.events] == ["lease_expired", "dead_lettered"]
    assert change.free == ("seat", "name/notes/fix-login")


def lose(job: Job, instance: str, *alive: str) -> Job:
    granted = grant(job, "mac-1", instance, None, now=NOON, ttl=TTL).after
    return expire(granted, now=after(91), live_instances=alive).after


def test_leases_that_partitions_took_do_not_make_a_job_poison() -> None:
    job = a_job()
    for lost in range(1, LOST_LEASES_MAX):
        job = lose(job, "a", "a", "b")
        assert (job.stage, job.lost) == (Stage.QUEUED, lost)
    assert lose(job, "a", "a", "b").result is Result.POISON


def test_three_partitions_of_one_process_do_not_make_its_job_poison() -> None:
    job = a_job()
    for lost in range(1, LOST_LEASES_MAX):
        # While the lease expires, the process is still cut off.
        job = lose(job, "a")
        assert (job.stage, job.lost) == (Stage.QUEUED, lost)
    assert lose(job, "a").result is Result.POISON


def test_lost_leases_of_an_older_program_count_each() -> None:
    job = replace(a_job(), lost=2)
    assert lose(job, "a").result is Result.POISON


def test_a_job_whose_hosts_do_not_come_back_is_poison_in_spite_of_a_partition() -> None:
    job = lose(lose(lose(a_job(), "a", "d"), "d", "d"), "b", "d")
    assert (job.stage, job.lost) == (Stage.QUEUED, 3)
    assert lose(job, "c", "d").result is Result.POISON


def test_a_handed_back_job_starts_counting_its_losses_again() -> None:
    job = lose(replace(lose(lose(a_job(), "a"), "b"), lost=0), "c")
    assert (job.stage, job.lost, job.lost_instances) == (Stage.QUEUED, 1, ("c",))


def test_expired_preemption_is_not_counted_as_a_lost_lease() -> None:
    job = a_running_job(preemption=ASKED_BACK, lost=2)
    change = expire(job, now=after(61))
    assert (change.after.stage, change.after.result) == (Stage.QUEUED, Result.PREEMPTED)
    assert (change.after.lost, change.after.front, change.after.preempted) == (0, True, 1)
    assert change.after.preemption is None


def test_lost_ship_step_stays_in_testing_and_requested() -> None:
    job = a_shipping_job(result=Result.OK, lost=2)
    change = expire(job, now=after(91))
    assert (change.after.stage, change.after.step) == (Stage.TESTING, Step.SHIP)
    assert (change.after.lease_epoch, change.after.result, change.after.lost) == (3, Result.OK, 2)
    assert change.free == ("slot/mac-1/0",)


def test_job_without_a_lease_has_no_lease_to_revoke() -> None:
    assert revoke_lease(a_job()) == {}


def test_holds_of_a_revoked_lease_are_freed_when_the_worker_stops() -> None:
    kept = a_lease(epoch=2, holds=("slot/mac-1/1",))
    job = a_job(stage=Stage.CANCELLED, ending=(a_lease(), kept), lease_epoch=3)
    change = release_revoked(job, 1, now=NOON, actor="factory:mac-1")
    assert change.free == ("slot/mac-1/0",)
    assert change.after.ending == (kept,)
    assert (change.after.stage, change.guards) == (Stage.CANCELLED, ())
    assert change.events[0].data == {"factoryId": "mac-1", "epoch": 1, "reason": "stopped"}


def test_holds_of_a_revoked_lease_are_freed_under_guard_at_its_expiry() -> None:
    job = a_job(stage=Stage.CANCELLED, ending=(a_lease(),), lease_epoch=2)
    change = release_revoked(job, 1, now=after(91), actor="system:reaper", expired=True)
    assert change.guards == (LeaseExpiredGuard("job-1", 1, after(91)),)
    assert change.events[0].data["reason"] == "time is up"


def test_only_a_revoked_lease_can_be_released() -> None:
    with pytest.raises(AssertionError, match="only a revoked lease"):
        release_revoked(a_running_job(), 1, now=NOON, actor="x")


@pytest.mark.parametrize(("left", "ends"), [(20, 20), (60, 60), (85, 60)])
def test_preempted_worker_has_at_most_a_minute(left: int, ends: int) -> None:
    job = a_running_job(lease=a_lease(expires_at=after(left)))
    change = request_preemption(job, "job-9", "critical", now=NOON)
    assert change.after.lease is not None
    assert change.after.lease.expires_at == after(ends)
    assert change.after.preemption == ASKED_BACK
    assert change.after.preemption.deadline == NOON + PREEMPTION_GRACE
    assert (change.after.stage, change.after.lease_epoch) == (Stage.BUILDING, 1)
    assert change.events[0].data == {"by": "job-9", "reason": "critical", "factoryId": "mac-1"}


def test_second_preemption_request_is_rejected() -> None:
    job = request_preemption(a_running_job(), "job-9", "critical", now=NOON).after
    with pytest.raises(
        Conflict, match=r"already asked to hand back, by job-9;.* at 2026-01-01T12:01:00"
    ):
        request_preemption(job, "user:ann", "now", now=after(50))


@pytest.mark.parametrize("job", [a_job(), a_shipping_job()], ids=["queued", "shipping"])
def test_only_a_running_job_can_be_preempted(job: Job) -> None:
    with pytest.raises(IllegalTransition, match="preempt is for jobs that are assigned, building"):
        request_preemption(job, "user:ann", "why", now=NOON)


def test_worked_time_adds_up_over_runs_and_excludes_ship_steps() -> None:
    once = hand_back(a_running_job(), Result.RELEASED, "", actor="x", now=after(7)).after
    assert once.worked_s == 7.0
    lost = expire(a_running_job(worked_s=once.worked_s), now=after(91)).after
    assert lost.worked_s == 98.0
    shipped = hand_back(a_shipping_job(worked_s=98.0), Result.RELEASED, "", actor="x", now=after(9))
    assert shipped.after.worked_s == 98.0
