"""One waiting job in a few bytes, and the piles that keep such jobs in their order."""

from collections.abc import Iterable, Iterator
from enum import Enum
from heapq import heapify, heappop, heappush

import msgspec

from gigafactory.domain.job.features import JobFeatures, features_of
from gigafactory.domain.job.job import Ask, Exclusion, Job, Offer, Priority, Step
from gigafactory.domain.job.lease import lock_key
from gigafactory.domain.manifest.engine_ref import program

SWEEP_SLACK = 32
FACTORY_PREFIX = "factory:"


class Place(Enum):
    """Where a waiting job is kept just now."""

    READY = 0
    PARKED = 1
    DELAYED = 2
    OFFERED = 3
    GONE = 4


class JobClass(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Jobs that ask for the same thing; there is one such object a class, compared by identity."""

    product_id: str
    priority: Priority
    ask: Ask
    step: Step
    rank: int
    wants: frozenset[str]
    """The capability tokens that every job of the class needs for itself."""
    named: frozenset[str]
    """The factories that the class prefers by name."""
    pinned: frozenset[str]
    """The factory that the class requires by name; of several, none can be all."""

    @staticmethod
    def of(job: Job, step: Step) -> "JobClass":
        """Build the class that a job belongs to."""
        ask = job.ask
        wants = set(ask.needs) if step is Step.RUN else set()
        if step is Step.RUN and ask.engine is not None:
            wants.add(f"engine:{program(ask.engine)}")
        return JobClass(
            product_id=job.product_id,
            priority=job.priority,
            ask=ask,
            step=step,
            rank=job.priority.rank,
            wants=frozenset(wants),
            named=factories_in(ask.prefers),
            pinned=factories_in(ask.needs) if step is Step.RUN else frozenset(),
        )

    def allows(self, factory_id: str) -> bool:
        """Whether the class may go to this factory, as far as it requires one by name."""
        return not self.pinned or self.pinned == {factory_id}


def factories_in(tokens: Iterable[str]) -> frozenset[str]:
    """Give the factories that are named among capability tokens."""
    return frozenset(
        token.removeprefix(FACTORY_PREFIX) for token in tokens if token.startswith(FACTORY_PREFIX)
    )


# Untracked by the garbage collector: there may be a million of these, and they point to no cycle.
class Waiting(msgspec.Struct, eq=False, gc=False, kw_only=True):
    """What the queue remembers of a job; a newer version of the job is a new object."""

    job_id: str
    job_class: JobClass
    created: float
    since: float
    """When it began to wait, which ageing counts from."""
    front: bool
    trait: JobFeatures
    place: Place = Place.GONE
    lock: str | None = None
    checkpoint: str | None = None
    """The factory that holds its checkpoint."""
    exclusions: tuple[Exclusion, ...] = ()
    offer: Offer | None = None

    @staticmethod
    def of(job: Job, job_class: JobClass) -> "Waiting":
        """Keep of a job what its order and its candidates depend on."""
        begun = job.ship.at if job.ship is not None else job.stage_since
        if job.not_before is not None:
            begun = max(begun, job.not_before)
        created = job.created_at.timestamp()
        locks = job.lock is not None and job_class.step is Step.RUN
        return Waiting(
            job_id=job.id,
            job_class=job_class,
            created=created,
            since=created if begun == job.created_at else begun.timestamp(),
            front=job.front,
            trait=features_of(job.profile, job.words, job.model),
            lock=lock_key(job.product_id, job.lock) if job.lock is not None and locks else None,
            checkpoint=job.checkpoint.factory_id if job.checkpoint else None,
            exclusions=job.exclusions,
            offer=job.offer,
        )

    def __lt__(self, other: "Waiting") -> bool:
        """Promoted first, then oldest, then by id."""
        if self.front is not other.front:
            return self.front
        if self.created != other.created:
            return self.created < other.created
        return self.job_id < other.job_id


class Pile:
    """Waiting jobs in order: a job that left is only skipped, and swept out when there are many."""

    __slots__ = ("_heap", "_place", "live")

    def __init__(self, place: Place) -> None:
        self._heap: list[Waiting] = []
        self._place = place
        self.live = 0

    def push(self, job: Waiting) -> None:
        """Take a job in; it is found here until it leaves."""
        job.place = self._place
        self.live += 1
        heappush(self._heap, job)

    def leave(self, job: Waiting) -> None:
        """Let a job go from wherever in the pile it is."""
        job.place = Place.GONE
        self.live -= 1
        if len(self._heap) > 2 * self.live + SWEEP_SLACK:
            # A job that left and came back is in here twice: once is enough.
            self._heap = [j for j in dict.fromkeys(self._heap) if j.place is self._place]
            heapify(self._heap)

    def head(self) -> Waiting | None:
        """Give the first job; None when there is none."""
        heap = self._heap
        while heap:
            if heap[0].place is self._place:
                return heap[0]
            heappop(heap)
        return None

    def walk(self, limit: int) -> Iterator[Waiting]:
        """Give the first jobs in order, looking at no more than `limit`, and move nothing."""
        heap = self._heap
        frontier = [(heap[0], 0)] if heap else []
        last = None
        for _ in range(limit):
            if not frontier:
                return
            job, index = heappop(frontier)
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(heap):
                    heappush(frontier, (heap[child], child))
            if job.place is self._place and job is not last:
                yield job
            last = job


class Alarms:
    """Waiting jobs by the moment at which something changes for them."""

    __slots__ = ("_heap", "_place", "live")

    def __init__(self, place: Place) -> None:
        self._heap: list[tuple[float, str, Waiting]] = []
        self._place = place
        self.live = 0

    def push(self, when: float, job: Waiting) -> None:
        """Keep a job until `when`."""
        job.place = self._place
        self.live += 1
        heappush(self._heap, (when, job.job_id, job))

    def leave(self, job: Waiting) -> None:
        """Let a job go before its time."""
        job.place = Place.GONE
        self.live -= 1
        if len(self._heap) > 2 * self.live + SWEEP_SLACK:
            self._heap = [alarm for alarm in self._heap if alarm[2].place is self._place]
            heapify(self._heap)

    def due(self, now: float) -> Iterator[Waiting]:
        """Let go of every job whose moment has come, in the order of time."""
        while self._heap and self._heap[0][0] <= now:
            _, _, job = heappop(self._heap)
            if job.place is self._place:
                self.leave(job)
                yield job
