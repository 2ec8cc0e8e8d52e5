"""Offers: a job is proposed to one factory for a limited time."""

import pytest

from gigafactory.domain.errors import IllegalTransition, OfferGone
from gigafactory.domain.job.change import RevisionGuard
from gigafactory.domain.job.job import (
    Exclusion,
    Job,
    Offer,
    Stage,
    Step,
)
from gigafactory.domain.job.lease import EXCLUSION_TTL, exclude, grant
from gigafactory.domain.job.offer import OFFER_TTL, offer, offer_id, require_offer, withdraw
from tests.support.builders import (
    NOON,
    TTL,
    a_job,
    after,
)


def offered(job: Job | None = None, factory_id: str = "mac-1") -> Job:
    return offer(job or a_job(), factory_id, "claude", now=NOON, decision={"score": 3}).after


def test_job_is_offered_to_one_factory_until_the_offer_expires() -> None:
    guards = (RevisionGuard("leader", "dispatch", 3),)
    change = offer(a_job(), "mac-1", "claude", now=NOON, decision={"score": 3}, guards=guards)
    made = change.after.offer
    assert made == Offer(
        number=1,
        factory_id="mac-1",
        engine="claude",
        step=Step.RUN,
        expires_at=NOON + OFFER_TTL,
        decision={"score": 3},
    )
    assert change.after.stage is Stage.QUEUED
    assert change.guards == guards
    (event,) = change.events
    assert (event.type, event.actor) == ("offered", "system:dispatcher")
    assert event.data == {
        "offerId": "job-1.1",
        "factoryId": "mac-1",
        "engine": "claude",
        "step": "run",
        "expiresAt": "2026-01-01T12:00:15.000Z",
        "decision": {"score": 3},
    }


def test_offered_job_cannot_be_offered_again() -> None:
    with pytest.raises(IllegalTransition, match="offered to mac-1 already"):
        offer(offered(), "linux-1", None, now=NOON, decision={})


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.QUEUED])
def test_job_that_is_not_queued_is_neither_offered_nor_granted(stage: Stage) -> None:
    job = a_job(stage=stage)
    with pytest.raises(IllegalTransition, match=f"is {stage} and cannot become offered"):
        offer(job, "mac-1", None, now=NOON, decision={})
    with pytest.raises(IllegalTransition, match=f"is {stage} and cannot become assigned"):
        grant(job, "mac-1", "a", None, now=NOON, ttl=TTL)


def test_job_is_neither_offered_nor_granted_before_its_start_time() -> None:
    job = a_job(not_before=after(30))
    with pytest.raises(IllegalTransition, match="waits until 2026-01-01T12:00:30"):
        offer(job, "mac-1", None, now=after(29), decision={})
    with pytest.raises(IllegalTransition, match="waits until 2026-01-01T12:00:30"):
        grant(job, "mac-1", "a", None, now=after(29), ttl=TTL)
    assert grant(job, "mac-1", "a", None, now=after(30), ttl=TTL).after.lease is not None


def test_expired_offer_is_withdrawn_and_the_next_has_a_new_id() -> None:
    guards = (RevisionGuard("leader", "dispatch", 3),)
    change = withdraw(offered(), "lapsed", now=after(16), actor="system:dispatcher", guards=guards)
    assert change.after.offer is None
    assert change.after.exclusions == (Exclusion("mac-1", after(16) + EXCLUSION_TTL),)
    assert change.events[0].type == "offer_expired"
    assert change.events[0].data == {
        "factoryId": "mac-1",
        "offerId": "job-1.1",
        "reason": "lapsed",
    }
    assert change.guards == guards
    again = offered(change.after, "linux-1")
    assert again.offer is not None
    assert offer_id(again.id, again.offer) == "job-1.2"


def test_expired_offer_can_be_accepted_until_it_is_withdrawn() -> None:
    job = offered()
    assert require_offer(job, "mac-1", "job-1.1") is job.offer


@pytest.mark.parametrize(
    ("job", "factory_id", "presented"),
    [
        (a_job(), "mac-1", "job-1.1"),
        (offered(), "linux-1", "job-1.1"),
        (offered(), "mac-1", "job-1.2"),
    ],
    ids=["withdrawn", "another's", "an older one"],
)
def test_accepting_an_offer_that_does_not_stand_is_rejected(
    job: Job, factory_id: str, presented: str
) -> None:
    with pytest.raises(OfferGone, match=f"offer {presented} is gone"):
        require_offer(job, factory_id, presented)


def test_exclusions_are_dropped_after_their_time() -> None:
    job = a_job(exclusions=(Exclusion("old", NOON), Exclusion("new", after(5))))
    assert exclude(job, "mac-1", NOON) == (
        Exclusion("new", after(5)),
        Exclusion("mac-1", NOON + EXCLUSION_TTL),
    )
    assert exclude(job, "new", NOON) == (Exclusion("new", NOON + EXCLUSION_TTL),)
