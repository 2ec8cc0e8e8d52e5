"""Patches that remove guards of leases, offers and schedules for the duration of a context."""

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from gigafactory.coordinator.dispatch import claims
from gigafactory.coordinator.duties import cron
from gigafactory.coordinator.fleet.factories import Factories
from gigafactory.coordinator.runs import fencing
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job import lease, offer, run_outcome
from gigafactory.domain.job.change import JobChange, Renewal
from gigafactory.domain.job.job import Job, Offer
from gigafactory.domain.submission import schedule
from tests.simulation.patches import Patch, patched


def renewals_shorten() -> Patch:
    """Renew leases for less time than they were granted for."""
    original = lease.renew

    def renew(job: Job, *args: Any, ttl: timedelta, **kwargs: Any) -> Renewal:  # noqa: ANN401 - as the rule has it
        renewal = original(job, *args, ttl=ttl, **kwargs)
        return replace(renewal, expires_at=renewal.expires_at - ttl * 3 / 4)

    return patched((lease, "renew", renew))


def fenced_every_time() -> Patch:
    """Record every fenced write of a worker, not only the first."""
    original = lease.record_fenced

    def record(job: Job, *args: Any, **kwargs: Any) -> JobChange | None:  # noqa: ANN401 - as the rule has it
        return original(replace(job, fenced=()), *args, **kwargs)

    return patched((fencing, "record_fenced", record))


def no_exclusion() -> Patch:
    """Let a factory have a job again that it has just given back."""

    def exclude(job: Job, _factory_id: str, _now: datetime) -> object:
        return job.exclusions

    return patched(*((module, "exclude", exclude) for module in (lease, offer, run_outcome)))


def no_reconciliation() -> Patch:
    """Leave the leases of a restarted factory as they are."""

    async def writes(self: Factories, job: Job, report: Factory, running: Any) -> tuple[()]:  # noqa: ANN401 - as it is
        del self, job, report, running
        return ()

    return patched((Factories, "_reconcile_writes", writes))


def offers_to_anybody() -> Patch:
    """Let any factory accept and decline an offer."""
    original = offer.require_offer

    def require_offer(job: Job, factory_id: str, given_id: str) -> Offer:
        return original(job, job.offer.factory_id if job.offer else factory_id, given_id)

    return patched((claims, "require_offer", require_offer))


def preemptions_without_end() -> Patch:
    """Renew the lease of a run that was asked to hand back like any other."""
    original = lease.renew

    def renew(job: Job, *args: Any, **kwargs: Any) -> Renewal:  # noqa: ANN401 - as the rule has it
        return original(replace(job, preemption=None), *args, **kwargs)

    return patched((lease, "renew", renew))


def ticks_repeated() -> Patch:
    """Serve a tick of a schedule, and leave it due."""
    original = schedule.tick

    def tick(template: Job, *args: Any, **kwargs: Any) -> tuple[JobChange, ...]:  # noqa: ANN401 - as the rule has it
        ticked, *copied = original(template, *args, **kwargs)
        due = template.not_before if copied else ticked.after.not_before
        return (replace(ticked, after=replace(ticked.after, not_before=due)), *copied)

    return patched((cron, "tick", tick))
