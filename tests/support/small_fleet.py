"""A small fleet for the scheduler's tests: factories that are heard of, and jobs that wait."""

from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from hypothesis import Phase, settings
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job import lease
from gigafactory.domain.job.job import Ask, Job, Offer, Step
from gigafactory.domain.queue.lock_queue import ClassQueue
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.scheduler import NO_JOBS, pick_jobs
from tests.support.builders import NOON, TTL, a_factory, a_job, after

UNHURRIED = settings(deadline=None, phases=tuple(p for p in Phase if p is not Phase.explain))
"""For properties over whole queues and fleets: a busy machine may be slow."""


def a_fleet(*factories: Factory, now: datetime = NOON, **seats: int) -> FleetState:
    """A view of these factories, all just heard of, with fleet-wide limits by engine."""
    fleet = FleetState(fleet_seats=seats)
    for factory in factories:
        fleet.put(factory)
        fleet.record_vitals(factory.id, Vitals(last_seen=now))
    return fleet


def a_queue(*jobs: Job) -> ReadyQueue:
    """A queue of these jobs."""
    queue = ReadyQueue()
    for job in jobs:
        queue.put(job)
    return queue


def the_class(queue: ReadyQueue) -> ClassQueue:
    """The only class of a queue."""
    (group,) = queue.classes()
    return group


def a_linux(factory_id: str = "linux-1", **fields: object) -> Factory:
    """A plain machine with one slot and one seat of claude."""
    plain = a_factory(
        id=factory_id,
        capabilities=("os:linux",),
        engines={"claude": EngineSeats()},
        slots=1,
    )
    return replace(plain, **fields)


def wanting(*needs: str, **fields: object) -> Ask:
    """An ask for these capability tokens."""
    return replace(Ask(needs=tuple(sorted(needs))), **fields)


def old_job(job_id: str, *, waited: timedelta = timedelta(), **fields: object) -> Job:
    """A job that has waited for so long at noon."""
    begun = NOON - waited
    return a_job(id=job_id, **({"created_at": begun, "stage_since": begun} | fields))


def an_offer(factory_id: str = "mac-1", **fields: object) -> Offer:
    """An offer of noon."""
    offer = Offer(
        number=1, factory_id=factory_id, engine="claude", step=Step.RUN, expires_at=after(15)
    )
    return replace(offer, **fields)


def pick_job(
    queue: ReadyQueue,
    fleet: FleetState,
    factory_id: str,
    *,
    now: datetime,
    skip: AbstractSet[str] = NO_JOBS,
) -> Pick | None:
    """The first job that a factory gets."""
    return next(pick_jobs(queue, fleet, factory_id, now=now, skip=skip), None)


def granted(job: Job, pick: Pick, now: datetime) -> Job:
    """The job as it is when the pick was granted."""
    return lease.grant(
        job, pick.factory_id, "instance", pick.engine, now=now, ttl=TTL, seats=pick.seats
    ).after
