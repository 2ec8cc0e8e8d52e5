"""The scheduler: pick jobs for a factory that claims, or the next job to offer and its factory."""

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

NO_JOBS: frozenset[str] = frozenset()

OrderedJob = tuple[Order, QueuedJob, Fit, EngineChoice]


def pick_jobs(
    queue: ReadyQueue,
    fleet: FleetState,
    factory_id: str,
    *,
    now: datetime,
    skip: AbstractSet[str] = NO_JOBS,
) -> Iterator[Pick]:
    """Yield the jobs that this factory should get, best first.

    The caller must reserve each pick before it asks for the next, and change nothing else.
    """
    placement = Placement(queue, fleet, now)
    member = fleet.member(factory_id)
    if member is None:
        return
    while member.presence in PRESENT:
        best = _best_of_first(placement, member, _offered_jobs(placement, queue, member, skip))
        offered = best is not None
        if best is None and member.occupancy.load < 1.0:
            best = _best_of_first(placement, member, _class_heads(placement, queue, member, skip))
        pick = placement.pick(best, "pull", offered=offered) if best is not None else None
        if pick is None:
            return
        yield pick


def pick_offer(
    queue: ReadyQueue,
    fleet: FleetState,
    *,
    now: datetime,
    only: AbstractSet[str] | None = None,
    skip: AbstractSet[str] = NO_JOBS,
    product_filter: Callable[[str], bool] | None = None,
) -> Pick | None:
    """Return the job to offer next and its factory; None when no job can be placed.

    `only` are the factories that an offer can reach. Jobs in `skip`, and jobs of products that
    `product_filter` rejects, are passed over.
    """
    placement = Placement(queue, fleet, now, only)
    if placement.has_no_free_slot:
        return None
    ordered: list[tuple[Order, ClassQueue]] = []
    for group in queue.classes():
        if product_filter is not None and not product_filter(group.job_class.product_id):
            continue
        first = next(heads_to_offer(group, now=now, skip=skip), None)
        if first is not None and (order := placement.order(first)) is not None:
            ordered.append((order, group))
    placement.considered = len(ordered)
    ordered.sort(key=itemgetter(0))
    for _, equals in groupby(ordered, key=itemgetter(0)):
        placed = [_best_of_class(placement, group, skip) for _, group in equals]
        best = min((c for c in placed if c is not None), default=None)
        if best is not None:
            return placement.pick(best, "push")
    return None


def _best_of_class(
    placement: Placement, group: ClassQueue, skip: AbstractSet[str]
) -> Candidate | None:
    """Return the best candidate for the first job of a class that some factory can run."""
    for job in heads_to_offer(group, now=placement.now, skip=skip):
        best = placement.best_candidate(job)
        if best is not None:
            return best
    return None


def _best_of_first(
    placement: Placement, member: Member, ordered: Iterable[OrderedJob]
) -> Candidate | None:
    """Return the best-scored candidate among the jobs with the first sort key."""
    rows = list(ordered)
    placement.considered = len(rows)
    first = min((order for order, *_ in rows), default=None)
    equals = (
        placement.score(job, member, fit, choice)
        for order, job, fit, choice in rows
        if order == first
    )
    return min(equals, default=None)


def _class_heads(
    placement: Placement, queue: ReadyQueue, member: Member, skip: AbstractSet[str]
) -> Iterator[OrderedJob]:
    """Yield the head of each class that the factory can run now."""
    fleet, factory_id = placement.fleet, member.factory.id
    for group in queue.classes():
        fit = fleet.fit(group.job_class, member.pool)
        if isinstance(fit, Rejection) or not group.job_class.allows_factory(factory_id):
            continue
        choice = choose_engine(fit, member.occupancy, fleet)
        if choice is None:
            continue
        job = head_for(group, factory_id, now=placement.now, skip=skip)
        if job is not None and (order := placement.order(job)) is not None:
            yield order, job, fit, placement.choose_engine(job, member, choice)


def _offered_jobs(
    placement: Placement, queue: ReadyQueue, member: Member, skip: AbstractSet[str]
) -> Iterator[OrderedJob]:
    """Yield the jobs offered to the factory, with the engine of the offer."""
    for job in queue.offered_to(member.factory.id):
        fit = placement.fleet.fit(job.job_class, member.pool)
        if isinstance(fit, Rejection) or job.job_id in skip or job.offer is None:
            continue
        choice = next((c for c in fit.engines if c.engine == job.offer.engine), None)
        if choice is None or not _can_start(placement, member, choice):
            continue
        if (order := placement.order(job)) is not None:
            yield order, job, fit, choice


def _can_start(placement: Placement, member: Member, choice: EngineChoice) -> bool:
    """Return whether an offered run could start; its own seat already counts as taken."""
    name = choice.seats
    ready = name is None or member.factory.engines[name].is_ready(placement.now)
    return ready and placement.fleet.seat_keys(member.factory.id, choice.engine) is not None
