"""What waits for factories, by what it asks for, and how much of it they will take anyway."""

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
    """The jobs of one class: those that could start now, and those that run."""

    job_class: JobClass
    waiting: int = 0
    """Could start now, were there a seat: none that is delayed, offered, or waits for a lock."""
    served: int = 0
    """Of those: the ones for which a seat is free."""
    free: int = 0
    """The free seats that fit, of which other classes may want some too."""
    running: int = 0
    oldest_s: float | None = None
    """How long the first of them has waited; None when none waits."""
    target_s: float | None = None
    """How long it should wait at most, where its product says so."""
    stopped: str | None = None
    """Why nothing of it begins just now, whoever is free."""

    @property
    def is_late(self) -> bool:
        """Whether it waits longer than its product wants it to."""
        return (
            self.oldest_s is not None
            and self.target_s is not None
            and self.oldest_s > self.target_s
        )

    @property
    def unserved(self) -> int:
        """The jobs for which there is no free seat, and another factory would help."""
        return 0 if self.stopped is not None else self.waiting - self.served


class DemandSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All demand at one moment, the most urgent first."""

    demands: tuple[Demand, ...] = ()
    busy_soon: frozenset[str] = frozenset()
    """The factories whose free seats will be taken."""
    fleet_seats_left: Mapping[str, int] = {}
    """The runs that may still begin in the whole fleet, of engines that have a limit."""


def measure_demand(queue: ReadyQueue, fleet: FleetState, now: datetime) -> DemandSnapshot:
    """Look at every class once; work grows with classes, locks, factories and what runs."""
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
        Demand(job_class=kind, running=running[key])
        for key, kind in at_work.items()
        if key not in lines
    ]
    return DemandSnapshot(
        demands=tuple(demands),
        busy_soon=frozenset(seats.busy_soon),
        fleet_seats_left=seats.fleet_seats_left,
    )


def _running(fleet: FleetState) -> tuple[Counter[Key], dict[Key, JobClass]]:
    """Count what runs by class, and give each class."""
    counts: Counter[Key] = Counter()
    kinds: dict[Key, JobClass] = {}
    for job in fleet.running_jobs.jobs():
        assert job.lease is not None, "whoever runs has a lease"
        key = (job.product_id, job.priority, job.lease.step, job.ask)
        if key not in kinds:
            kinds[key] = JobClass.of(job, job.lease.step)
        counts[key] += 1
    return counts, kinds


class _Line(NamedTuple):
    kind: JobClass
    first: QueuedJob
    length: int


def _lines(queue: ReadyQueue) -> dict[Key, _Line]:
    """Give the classes of which some job could start now; of those that want one lock, one can."""
    losers: Counter[Key] = Counter()
    for rivals in queue.lock_rivals():
        best = min(rivals, key=lambda job: (job.job_class.rank, job.created, job.job_id))
        losers.update(_key(job.job_class) for job in rivals if job is not best)
    lines = {}
    for group in queue.classes():
        first, key = group.ready.head(), _key(group.job_class)
        length = group.ready.live - losers[key]
        if first is not None and length > 0:
            lines[key] = _Line(group.job_class, first, length)
    return lines


def _waiting(line: _Line, running: Counter[Key], fleet: FleetState, now: datetime) -> Demand:
    kind = line.kind
    # What is to be shipped has begun already: a target is for what waits to begin.
    begins = kind.step is Step.RUN
    target = fleet.product(kind.product_id).target_wait.get(kind.priority) if begins else None
    return Demand(
        job_class=kind,
        waiting=line.length,
        running=running[_key(kind)],
        oldest_s=max(now.timestamp() - line.first.waiting_since, 0.0),
        target_s=target.total_seconds() if target is not None else None,
        stopped=fleet.stop_reason(kind.product_id) or fleet.budget_refusal(kind, now),
    )


def _key(kind: JobClass) -> Key:
    return (kind.product_id, kind.priority, kind.step, kind.ask)


def _urgency(demand: Demand) -> tuple[bool, int, float, str]:
    """Late ones first, then by priority, then the oldest, then by product."""
    assert demand.oldest_s is not None, "it waits"
    return (
        not demand.is_late,
        demand.job_class.rank,
        -demand.oldest_s,
        demand.job_class.product_id,
    )
