"""Demand: queued and running jobs by job class, and how many the present fleet can serve."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import Ask, Priority, Step
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scaling.free_seats import FreeSeats

Key = tuple[str, Priority, Step, Ask]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one class: those that could start now, and those that are running."""

    job_class: JobClass
    waiting: int = 0
    """Jobs that could start if a seat were free: not delayed, offered or waiting for a lock."""
    served: int = 0
    """The part of `waiting` for which a seat is free."""
    free: int = 0
    """The free seats that fit; other classes may compete for them."""
    running: int = 0
    oldest_s: float | None = None
    """The wait of the first job so far; None when none waits."""
    target_s: float | None = None
    """The target wait of its product, if any."""
    stopped: str | None = None
    """Why no job of the class may start; None when jobs may start."""

    @property
    def is_late(self) -> bool:
        """Whether its first job waits longer than the target wait."""
        return (
            self.oldest_s is not None
            and self.target_s is not None
            and self.oldest_s > self.target_s
        )

    @property
    def unserved(self) -> int:
        """The number of jobs without a free seat, for which another factory would help."""
        return 0 if self.stopped is not None else self.waiting - self.served


class DemandSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All demand at one point in time, the most urgent first."""

    demands: tuple[Demand, ...] = ()
    busy_soon: frozenset[str] = frozenset()
    """The factories whose free seats will be taken by waiting jobs."""
    fleet_seats_left: Mapping[str, int] = {}
    """The free fleet-wide seats of each engine that has a limit."""


def measure_demand(queue: ReadyQueue, fleet: FleetState, now: datetime) -> DemandSnapshot:
    """Return the demand of every class; linear in classes, locks, factories and running jobs."""
    queue.advance(now)
    fleet.advance(now)
    running, at_work = _running(fleet)
    lines = _lines(queue)
    waiting = [_waiting(line, running, fleet, now) for line in lines.values()]
    seats = FreeSeats(fleet, now)
    demands = []
    for demand in sorted(waiting, key=_urgency):
        first = lines[_key(demand.job_class)].first
        free = seats.count_fitting(demand.job_class, first)
        takes = 0 if demand.stopped is not None else demand.waiting
        served = seats.take(demand.job_class, first, takes)
        demands.append(msgspec.structs.replace(demand, free=free, served=served))
    demands += [
        Demand(job_class=job_class, running=running[key])
        for key, job_class in at_work.items()
        if key not in lines
    ]
    return DemandSnapshot(
        demands=tuple(demands),
        busy_soon=frozenset(seats.busy_soon),
        fleet_seats_left=seats.fleet_seats_left,
    )


def _running(fleet: FleetState) -> tuple[Counter[Key], dict[Key, JobClass]]:
    """Return the number of running jobs by class, and each class."""
    counts: Counter[Key] = Counter()
    classes: dict[Key, JobClass] = {}
    for job in fleet.running_jobs.jobs():
        assert job.lease is not None, "a running job has a lease"
        key = (job.product_id, job.priority, job.lease.step, job.ask)
        if key not in classes:
            classes[key] = JobClass.of(job, job.lease.step)
        counts[key] += 1
    return counts, classes


class _ClassLine(NamedTuple):
    job_class: JobClass
    first: QueuedJob
    length: int


def _lines(queue: ReadyQueue) -> dict[Key, _ClassLine]:
    """Return the classes with a job that could start now; only one per lock counts."""
    losers: Counter[Key] = Counter()
    for rivals in queue.lock_rivals():
        best = min(rivals, key=lambda job: (job.job_class.rank, job.created, job.job_id))
        losers.update(_key(job.job_class) for job in rivals if job is not best)
    lines = {}
    for group in queue.classes():
        first, key = group.ready.head(), _key(group.job_class)
        length = group.ready.live - losers[key]
        if first is not None and length > 0:
            lines[key] = _ClassLine(group.job_class, first, length)
    return lines


def _waiting(line: _ClassLine, running: Counter[Key], fleet: FleetState, now: datetime) -> Demand:
    job_class = line.job_class
    # Target waits are for runs: a job to be shipped has started already.
    begins = job_class.step is Step.RUN
    target = (
        fleet.product(job_class.product_id).target_wait.get(job_class.priority) if begins else None
    )
    return Demand(
        job_class=job_class,
        waiting=line.length,
        running=running[_key(job_class)],
        oldest_s=max(now.timestamp() - line.first.waiting_since, 0.0),
        target_s=target.total_seconds() if target is not None else None,
        stopped=fleet.stop_reason(job_class.product_id) or fleet.budget_refusal(job_class, now),
    )


def _key(job_class: JobClass) -> Key:
    return (job_class.product_id, job_class.priority, job_class.step, job_class.ask)


def _urgency(demand: Demand) -> tuple[bool, int, float, str]:
    """Sort late classes first, then by priority, age and product."""
    assert demand.oldest_s is not None, "a job of the class waits"
    return (
        not demand.is_late,
        demand.job_class.rank,
        -demand.oldest_s,
        demand.job_class.product_id,
    )
