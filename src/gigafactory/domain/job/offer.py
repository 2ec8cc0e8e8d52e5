"""Offers: proposals of a job to one factory for a short time."""

from datetime import datetime, timedelta
from typing import Any

from gigafactory.domain.errors import IllegalTransition, OfferGone
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import Guard, JobChange
from gigafactory.domain.job.job import Job, Offer
from gigafactory.domain.job.lease import exclude
from gigafactory.domain.job.lifecycle import format_time, require_ready, transition

OFFER_TTL = timedelta(seconds=15)


def offer(
    job: Job,
    factory_id: str,
    engine: str | None,
    *,
    now: datetime,
    decision: dict[str, Any],
    guards: tuple[Guard, ...] = (),
    actor: str = "system:dispatcher",
) -> JobChange:
    """Offer the job to one factory; a job has at most one offer at a time.

    Raises IllegalTransition if the job does not wait for a factory, or is already offered.
    """
    wanted = require_ready(job, "offered", now=now)
    if job.offer is not None:
        hint = f"it is offered to {job.offer.factory_id} already"
        raise IllegalTransition(job.id, job.stage, "offered", hint)
    new = Offer(
        number=job.offers + 1,
        factory_id=factory_id,
        engine=engine,
        step=wanted,
        expires_at=now + OFFER_TTL,
        decision=decision,
    )
    note = {
        "offerId": offer_id(job.id, new),
        "factoryId": factory_id,
        "engine": engine,
        "step": new.step,
        "expiresAt": format_time(new.expires_at),
        "decision": decision,
    }
    return transition(
        job,
        None,
        (event_types.OFFERED, note),
        actor=actor,
        now=now,
        guards=guards,
        offer=new,
        offers=new.number,
    )


def offer_id(job_id: str, offer: Offer) -> str:
    """Return the id of an offer: a offer one each time the job is offered."""
    return f"{job_id}.{offer.number}"


def withdraw(
    job: Job, reason: str, *, now: datetime, actor: str, guards: tuple[Guard, ...] = ()
) -> JobChange:
    """Withdraw an offer that lapsed or was declined, and exclude its factory briefly."""
    assert job.offer is not None, "only a standing offer is withdrawn"
    note = {
        "factoryId": job.offer.factory_id,
        "offerId": offer_id(job.id, job.offer),
        "reason": reason,
    }
    return transition(
        job,
        None,
        (event_types.OFFER_EXPIRED, note),
        actor=actor,
        now=now,
        guards=guards,
        offer=None,
        exclusions=exclude(job, job.offer.factory_id, now),
    )


def require_offer(job: Job, factory_id: str, given_id: str) -> Offer:
    """Return the offer that a factory accepts; a lapsed one counts until it is withdrawn.

    Raises OfferGone.
    """
    if (
        job.offer is None
        or job.offer.factory_id != factory_id
        or offer_id(job.id, job.offer) != given_id
    ):
        message = (
            f"offer {given_id} is gone: the job was withdrawn or went elsewhere; wait for the next"
        )
        raise OfferGone(message)
    return job.offer
