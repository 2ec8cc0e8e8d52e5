"""Two questions, one scorer: which job for this factory, and which job to offer to whom next."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import EngineChoice, Fit, Rejection
from gigafactory.domain.fleet.pool import Member
from gigafactory.domain.queue.lock_queue import ClassQueue
from gigafactory.domain.queue.queued_job import QueuedJob
from gigafactory.domain.queue.ready_queue import ReadyQueue, head_for, heads_to_offer
from gigafactory.domain.scheduler.candidate import Candidate
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.scheduler.placement import Order, Placement
from gigafactory.domain.scheduler.rejections import PRESENT
from gigafactory.domain.scheduler.scoring import choose_engine

NOTHING: frozenset[str] = frozenset()

Lined = tuple[Order, QueuedJob, Fit, EngineChoice]


def pick_job(
    queue: ReadyQueue,
    fleet: FleetState,
    factory_id: str,
    *,
    now: datetime,
    skip: AbstractSet[str] = NOTHING,
) -> Pick | None:
    """Give the job that this factory should have next; None when there is none for it.

    What stands offered to it comes first. Jobs of `skip` are passed over.
    """
    return next(pick_jobs(queue, fleet, factory_id, now=now, skip=skip), None)


def pick_jobs(
    queue: ReadyQueue,
    fleet: FleetState,
    factory_id: str,
    *,
    now: datetime,
    skip: AbstractSet[str] = NOTHING,
) -> Iterator[Pick]:
    """Give the jobs that this factory should have, the best first.

    Whoever takes one reserves it before the next is asked for, and lets nothing else change.
    """
    this = Placement(queue, fleet, now)
    member = fleet.member(factory_id)
    if member is None:
        return
    while member.presence in PRESENT:
        best = _foremost(this, member, _offered(this, queue, member, skip))
        offered = best is not None
        if best is None and member.occupancy.load < 1.0:
            best = _foremost(this, member, _heads(this, queue, member, skip))
        pick = this.pick(best, "pull", offered=offered) if best is not None else None
        if pick is None:
            return
        yield pick


def pick_offer(
    queue: ReadyQueue,
    fleet: FleetState,
    *,
    now: datetime,
    only: AbstractSet[str] | None = None,
    skip: AbstractSet[str] = NOTHING,
    product_filter: Callable[[str], bool] | None = None,
) -> Pick | None:
    """Give the job that should be offered next, and to whom; None when nothing can be placed.

    `only` are the factories that an offer can reach. Jobs of `skip` are passed over, and those of
    products that `of` does not want.
    """
    this = Placement(queue, fleet, now, only)
    if this.has_no_free_slot:
        return None
    lined: list[tuple[Order, ClassQueue]] = []
    for group in queue.classes():
        if product_filter is not None and not product_filter(group.job_class.product_id):
            continue
        first = next(heads_to_offer(group, now=now, skip=skip), None)
        if first is not None and (order := this.order(first)) is not None:
            lined.append((order, group))
    this.considered = len(lined)
    lined.sort(key=itemgetter(0))
    for _, equals in groupby(lined, key=itemgetter(0)):
        placed = [_place(this, group, skip) for _, group in equals]
        best = min((c for c in placed if c is not None), default=None)
        if best is not None:
            return this.pick(best, "push")
    return None


def _place(this: Placement, group: ClassQueue, skip: AbstractSet[str]) -> Candidate | None:
    """Give the first job of a class that some factory can have, with the best one for it."""
    for job in heads_to_offer(group, now=this.now, skip=skip):
        best = this.best_candidate(job)
        if best is not None:
            return best
    return None


def _foremost(this: Placement, member: Member, lined: Iterable[Lined]) -> Candidate | None:
    """Give the best of those that come first before any score."""
    rows = list(lined)
    this.considered = len(rows)
    first = min((order for order, *_ in rows), default=None)
    equals = (
        this.score(job, member, fit, choice) for order, job, fit, choice in rows if order == first
    )
    return min(equals, default=None)


def _heads(
    this: Placement, queue: ReadyQueue, member: Member, skip: AbstractSet[str]
) -> Iterator[Lined]:
    """Give the head of each class that the factory can have now."""
    fleet, factory_id = this.fleet, member.factory.id
    for group in queue.classes():
        fit = fleet.fit(group.job_class, member.pool)
        if isinstance(fit, Rejection) or not group.job_class.allows_factory(factory_id):
            continue
        choice = choose_engine(fit, member.occupancy, fleet)
        if choice is None:
            continue
        job = head_for(group, factory_id, now=this.now, skip=skip)
        if job is not None and (order := this.order(job)) is not None:
            yield order, job, fit, this.choose_engine(job, member, choice)


def _offered(
    this: Placement, queue: ReadyQueue, member: Member, skip: AbstractSet[str]
) -> Iterator[Lined]:
    """Give the jobs that stand offered to the factory, as they were offered."""
    for job in queue.offered_to(member.factory.id):
        fit = this.fleet.fit(job.job_class, member.pool)
        if isinstance(fit, Rejection) or job.job_id in skip or job.offer is None:
            continue
        choice = next((c for c in fit.engines if c.engine == job.offer.engine), None)
        if choice is None or not _can_start(this, member, choice):
            continue
        if (order := this.order(job)) is not None:
            yield order, job, fit, choice


def _can_start(this: Placement, member: Member, choice: EngineChoice) -> bool:
    """Tell whether an offered run could start; its own seat is counted as taken already."""
    name = choice.seats
    ready = name is None or member.factory.engines[name].is_ready(this.now)
    return ready and this.fleet.seat_keys(member.factory.id, choice.engine) is not None
