"""A small fleet for the scheduler's tests: online factories and waiting jobs."""

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

NO_DEADLINE = settings(deadline=None, phases=tuple(p for p in Phase if p is not Phase.explain))
"""For properties over whole queues and fleets, which may be slow on a busy machine."""


def a_fleet(*factories: Factory, now: datetime = NOON, **seats: int) -> FleetState:
    """Return the state of these factories, all online, with fleet-wide limits by engine."""
    fleet = FleetState(fleet_seats=seats)
    for factory in factories:
        fleet.put(factory)
        fleet.record_vitals(factory.id, Vitals(last_seen=now))
    return fleet


def a_queue(*jobs: Job) -> ReadyQueue:
    """Return a queue of these jobs."""
    queue = ReadyQueue()
    for job in jobs:
        queue.put(job)
    return queue


def only_class(queue: ReadyQueue) -> ClassQueue:
    """Return the only class of a queue."""
    (queue_class,) = queue.classes()
    return queue_class


def a_linux(factory_id: str = "linux-1", **fields: object) -> Factory:
    """Return a factory with one slot and one claude seat."""
    plain = a_factory(
        id=factory_id,
        capabilities=("os:linux",),
        engines={"claude": EngineSeats()},
        slots=1,
    )
    return replace(plain, **fields)


def ask_for(*needs: str, **fields: object) -> Ask:
    """Return a request for these capabilities."""
    return replace(Ask(needs=tuple(sorted(needs))), **fields)


def old_job(job_id: str, *, waited: timedelta = timedelta(), **fields: object) -> Job:
    """Return a job that has waited this long at noon."""
    since = NOON - waited
    return a_job(id=job_id, **({"created_at": since, "stage_since": since} | fields))


def an_offer(factory_id: str = "mac-1", **fields: object) -> Offer:
    """Return an offer made at noon."""
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
    """Return the first job that a factory gets, or None."""
    return next(pick_jobs(queue, fleet, factory_id, now=now, skip=skip), None)


def granted(job: Job, pick: Pick, now: datetime) -> Job:
    """Return the job after the grant of a pick."""
    return lease.grant(
        job, pick.factory_id, "instance", pick.engine, now=now, ttl=TTL, seats=pick.seats
    ).after
