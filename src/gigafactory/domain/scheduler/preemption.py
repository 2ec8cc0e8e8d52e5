"""Preemption: which running job hands back its seat to an urgent job that finds none free."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import EngineChoice, Fit
from gigafactory.domain.fleet.pool import Member
from gigafactory.domain.fleet.running_jobs import engine_seat_of, may_preempt, preempting_actor
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import Guard, JobChange
from gigafactory.domain.job.job import Job, Priority
from gigafactory.domain.job.lease import request_preemption
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.queue.lock_queue import ClassQueue
from gigafactory.domain.queue.queued_job import QueuedJob
from gigafactory.domain.queue.ready_queue import PASSED_OVER_MAX, ReadyQueue, is_excluded
from gigafactory.domain.scheduler.placement import Order, Placement
from gigafactory.domain.scheduler.rejections import PRESENT


class PreemptionPick(NamedTuple):
    """A running job to preempt, and the urgent job that gets its seat."""

    job_id: str
    """The urgent job."""
    victim_id: str
    factory_id: str


def pick_preemption(
    queue: ReadyQueue, fleet: FleetState, *, now: datetime, urgent: AbstractSet[Priority]
) -> PreemptionPick | None:
    """Return the next job to preempt; None when no urgent job lacks a seat.

    It is the least urgent job that may be preempted, and of these the one that started last.
    """
    if not any(kind.priority in urgent for kind in queue.waiting_classes):
        return None
    placement = Placement(queue, fleet, now)
    groups = [group for group in queue.classes() if group.job_class.priority in urgent]
    for _, job in sorted(_jobs_in_order(placement, groups), key=itemgetter(0, 1)):
        victims = _victims(placement, job)
        best = min(victims, key=lambda v: (-v.priority.rank, -_granted_at(v), v.id), default=None)
        if best is not None and best.lease is not None:
            return PreemptionPick(job.job_id, best.id, best.lease.factory_id)
    return None


def preempt_for(
    victim: Job, urgent: Job, *, actor: str, now: datetime, guards: tuple[Guard, ...] = ()
) -> tuple[JobChange, JobChange]:
    """Return the changes that ask a running job to hand back and promote the urgent one.

    Raises IllegalTransition, Conflict as any request to hand back does.
    """
    lease = victim.lease
    assert lease is not None, "only a running job is preempted"
    own = urgent.product_id == victim.product_id
    urgent_name = f"job {urgent.name}" if own else "job of another product"
    reason = f"{urgent.priority} {urgent_name} found no free seat"
    change = request_preemption(victim, preempting_actor(urgent.id), reason, now=now, actor=actor)
    note = {"factoryId": lease.factory_id} | ({"evicts": victim.id} if own else {})
    first = transition(
        urgent,
        None,
        (event_types.PREEMPTING, note),
        actor=actor,
        now=now,
        guards=guards,
        front=True,
    )
    return change, first


def _jobs_in_order(
    placement: Placement, groups: Iterable[ClassQueue]
) -> Iterator[tuple[Order, QueuedJob]]:
    """Yield the jobs that lack a seat, with their sort keys."""
    for group in groups:
        for job in _without_a_seat(placement, group):
            if (order := placement.order(job)) is not None:
                yield order, job


def _without_a_seat(placement: Placement, group: ClassQueue) -> Iterator[QueuedJob]:
    """Yield the first job of a class for which no seat is free or being freed.

    While that job excludes some factory, the next jobs are yielded too: they may go there.
    """
    for job in group.ready.walk(PASSED_OVER_MAX):
        if job.offer is not None or placement.fleet.running_jobs.preempted_for(job.job_id):
            continue
        if placement.candidates(job, 1):
            return
        yield job
        if not job.exclusions:
            return


def _victims(placement: Placement, job: QueuedJob) -> Iterator[Job]:
    """Yield the running jobs that may be preempted and whose seat fits the job."""
    fleet, kind = placement.fleet, job.job_class
    for pool in fleet.pools():
        fit = fleet.fit(kind, pool)
        if not isinstance(fit, Fit):
            continue
        for factory_id, member in pool.members.items():
            if not kind.allows_factory(factory_id) or member.presence not in PRESENT:
                continue
            if is_excluded(job, factory_id, placement.now):
                continue
            for victim in fleet.running_jobs.on_factory(factory_id):
                if may_preempt(victim, kind.rank) and _would_fit(placement, member, fit, victim):
                    yield victim


def _would_fit(placement: Placement, member: Member, fit: Fit, victim: Job) -> bool:
    """Return whether the job fits once the victim is gone."""
    factory = member.factory
    if placement.fleet.seat_map.slots_taken(factory.id) > factory.slots:
        return False
    return any(
        _free_without(placement, member, choice, engine_seat_of(victim)) for choice in fit.engines
    )


def _free_without(
    placement: Placement, member: Member, choice: EngineChoice, freed: str | None
) -> bool:
    name = choice.seats
    if name is None:
        return True
    engine, seat_map = member.factory.engines[name], placement.fleet.seat_map
    if not engine.is_ready(placement.now):
        return False
    one = freed == name
    left = seat_map.fleet_seats_free(name)
    here = seat_map.seats_taken(member.factory.id, name) - one < engine.seats
    return here and (left is None or left + one > 0)


def _granted_at(job: Job) -> float:
    return job.lease.granted_at.timestamp() if job.lease is not None else 0.0
