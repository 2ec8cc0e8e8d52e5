"""Leases: grants, renewals and fencing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gigafactory.domain.errors import Fenced
from gigafactory.domain.job.change import Renewal, RevisionGuard
from gigafactory.domain.job.job import (
    Job,
    Preemption,
    ShipRequest,
    Stage,
    Step,
)
from gigafactory.domain.job.lease import (
    FENCED_KEPT,
    expire,
    grant,
    lock_key,
    record_fenced,
    renew,
    require_lease,
    resume_lease,
    run_id,
)
from gigafactory.domain.job.offer import offer
from tests.support.builders import (
    NOON,
    TTL,
    a_job,
    a_lease,
    a_running_job,
    after,
)

ASKED_TO_SHIP = ShipRequest(by="user:ann", commit="abc", at=NOON)
ASKED_BACK = Preemption(by="job-9", reason="critical", deadline=after(60))


def test_grant_takes_lease_lock_and_seats_in_one_change() -> None:
    guards = (RevisionGuard("switch", "*", 1),)
    job = a_job(lock="db", lease_epoch=4, front=True, verified=True)
    change = grant(
        job,
        "mac-1",
        "mac-1-a",
        "claude",
        now=after(1),
        ttl=TTL,
        seats=("slot/mac-1/0",),
        decision={"score": 3},
        guards=guards,
    )
    lease = change.after.lease
    assert lease is not None
    assert (change.after.stage, change.after.lease_epoch, lease.epoch) == (Stage.ASSIGNED, 5, 5)
    assert (lease.factory_id, lease.instance_id, lease.run_id) == ("mac-1", "mac-1-a", "job-1.5")
    assert (lease.granted_at, lease.expires_at) == (after(1), after(1) + TTL)
    assert change.take == lease.holds == (lock_key("notes", "db"), "slot/mac-1/0")
    assert change.guards == guards
    assert (change.after.engine, change.after.runs, change.after.front) == ("claude", 1, False)
    assert change.events[0].type == "assigned"
    assert change.events[0].data == {
        "factoryId": "mac-1",
        "epoch": 5,
        "runId": "job-1.5",
        "engine": "claude",
        "step": "run",
        "decision": {"score": 3},
    }


def test_claim_voids_the_offer_to_another_factory() -> None:
    change = grant(
        offer(a_job(), "linux-1", None, now=NOON, decision={}).after,
        "mac-1",
        "a",
        None,
        now=NOON,
        ttl=TTL,
    )
    assert change.after.offer is None


def test_new_run_clears_the_verified_flag() -> None:
    change = grant(a_job(verified=True), "mac-1", "a", None, now=NOON, ttl=TTL)
    assert change.after.verified is None


def test_ship_step_is_leased_in_testing_without_the_lock() -> None:
    job = a_job(
        stage=Stage.TESTING, ship=ASKED_TO_SHIP, lock="db", engine="claude", runs=2, verified=True
    )
    change = grant(job, "mac-1", "a", None, now=NOON, ttl=TTL, seats=("slot/mac-1/0",))
    assert change.after.lease is not None
    assert (change.after.stage, change.after.lease.step) == (Stage.TESTING, Step.SHIP)
    assert change.take == ("slot/mac-1/0",)
    assert (change.after.runs, change.after.engine, change.after.verified) == (2, "claude", True)
    assert change.after.step is None


def test_run_id_consists_of_job_and_epoch() -> None:
    assert run_id("job-1", 7) == "job-1.7"


def test_holder_of_the_current_epoch_passes_the_lease_check() -> None:
    job = a_running_job()
    assert require_lease(job, "mac-1", 1) is job.lease


@pytest.mark.parametrize(
    ("job", "factory_id", "epoch"),
    [
        (a_job(lease_epoch=1), "mac-1", 1),
        (a_running_job(), "linux-1", 1),
        (a_running_job(), "mac-1", 0),
        (a_running_job(), "mac-1", 2),
        (a_running_job(lease_epoch=2), "mac-1", 1),
    ],
    ids=["ended lease", "another factory", "stale epoch", "guessed epoch", "epoch moved on"],
)
def test_factory_without_the_lease_is_fenced(job: Job, factory_id: str, epoch: int) -> None:
    with pytest.raises(Fenced, match=f"epoch {epoch} does not hold the lease") as refusal:
        require_lease(job, factory_id, epoch)
    assert (refusal.value.presented, refusal.value.current) == (epoch, job.lease_epoch)
    assert refusal.value.job_id == job.id


def test_fenced_write_adds_one_event_and_keeps_the_revision() -> None:
    job = a_running_job(lease_epoch=2, rev=5)
    change = record_fenced(job, "mac-1", 1, now=after(3))
    assert change is not None
    assert (change.after.rev, change.after.seq) == (5, job.seq + 1)
    assert replace(change.after, seq=job.seq, updated_at=NOON, fenced=()) == job
    (event,) = change.events
    assert (event.type, event.seq, event.at) == ("fenced", 2, after(3))
    assert event.data == {"factoryId": "mac-1", "presented": 1, "current": 2}
    assert record_fenced(change.after, "mac-1", 1, now=after(4)) is None
    assert record_fenced(change.after, "mac-1", 0, now=after(4)) is not None
    assert record_fenced(change.after, "linux-1", 1, now=after(4)) is not None


def test_fenced_event_is_never_earlier_than_the_last_event() -> None:
    change = record_fenced(a_job(updated_at=after(9)), "mac-1", 1, now=NOON)
    assert change is not None
    assert change.events[0].at == after(9)


def test_number_of_remembered_fenced_writes_is_limited() -> None:
    job = a_job()
    for epoch in range(FENCED_KEPT + 5):
        change = record_fenced(job, "mac-1", epoch, now=NOON)
        assert change is not None
        job = change.after
    assert len(job.fenced) == FENCED_KEPT
    assert record_fenced(job, "mac-1", FENCED_KEPT + 4, now=NOON) is None


def test_renewal_extends_the_lease_from_now() -> None:
    assert renew(a_running_job(), "mac-1", 1, now=after(20), ttl=TTL) == Renewal(
        "job-1", 1, after(20) + TTL
    )


def test_expired_lease_can_be_renewed_until_it_is_reaped() -> None:
    job = a_running_job()
    assert renew(job, "mac-1", 1, now=after(500), ttl=TTL).expires_at == after(500) + TTL
    with pytest.raises(Fenced):
        renew(expire(job, now=after(500)).after, "mac-1", 1, now=after(501), ttl=TTL)


@given(st.integers(-200, 200), st.none() | st.integers(-200, 200))
def test_renewal_never_shortens_a_lease_or_outlasts_a_preemption(
    seconds: int, deadline: int | None
) -> None:
    preemption = None if deadline is None else replace(ASKED_BACK, deadline=after(deadline))
    job = a_running_job(preemption=preemption)
    assert job.lease is not None
    until = renew(job, "mac-1", 1, now=after(seconds), ttl=TTL).expires_at
    assert until >= job.lease.expires_at
    if deadline is not None:
        assert until == job.lease.expires_at or until <= after(deadline)


def test_restarted_factory_resumes_its_run_under_the_same_epoch() -> None:
    change = resume_lease(a_running_job(), "mac-1-b", now=NOON)
    assert change.after.lease == a_lease(instance_id="mac-1-b")
    assert change.events[0].type == "taken_up"
    assert (change.after.lease_epoch, change.take, change.free) == (1, (), ())
