"""A queued job in a few bytes, its job class, and the heaps that keep queued jobs in order."""

from collections.abc import Iterable, Iterator
from enum import Enum
from heapq import heapify, heappop, heappush

import msgspec

from gigafactory.domain.job.features import JobFeatures, features_of
from gigafactory.domain.job.job import Ask, Exclusion, Job, Offer, Priority, Step
from gigafactory.domain.job.lease import lock_key
from gigafactory.domain.manifest.engine_ref import base_engine

SWEEP_SLACK = 32
FACTORY_PREFIX = "factory:"


class QueueSlot(Enum):
    """Which heap of the ready queue holds a job."""

    READY = 0
    PARKED = 1
    DELAYED = 2
    OFFERED = 3
    NONE = 4


class JobClass(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Jobs with equal requirements; one object per class, compared by identity."""

    product_id: str
    priority: Priority
    ask: Ask
    step: Step
    rank: int
    needed_tokens: frozenset[str]
    """The capability tokens that each job of the class needs."""
    preferred_factories: frozenset[str]
    """The factories preferred by name."""
    required_factories: frozenset[str]
    """The factories required by name; with more than one, no factory satisfies the class."""

    @staticmethod
    def of(job: Job, step: Step) -> "JobClass":
        """Return the class of a job in a step."""
        ask = job.ask
        wants = set(ask.needs) if step is Step.RUN else set()
        if step is Step.RUN and ask.engine is not None:
            wants.add(f"engine:{base_engine(ask.engine)}")
        return JobClass(
            product_id=job.product_id,
            priority=job.priority,
            ask=ask,
            step=step,
            rank=job.priority.rank,
            needed_tokens=frozenset(wants),
            preferred_factories=factories_in(ask.prefers),
            required_factories=factories_in(ask.needs) if step is Step.RUN else frozenset(),
        )

    def allows_factory(self, factory_id: str) -> bool:
        """Return whether the class requires no factory by name, or exactly this one."""
        return not self.required_factories or self.required_factories == {factory_id}


def factories_in(tokens: Iterable[str]) -> frozenset[str]:
    """Return the factory ids named by `factory:` tokens."""
    return frozenset(
        token.removeprefix(FACTORY_PREFIX) for token in tokens if token.startswith(FACTORY_PREFIX)
    )


# gc=False: there may be a million of these, and they are never part of a reference cycle.
class QueuedJob(msgspec.Struct, eq=False, gc=False, kw_only=True):
    """The part of a job that the queue keeps; each version of a job is a new object."""

    job_id: str
    job_class: JobClass
    created: float
    waiting_since: float
    """When it started to wait; ageing counts from here."""
    front: bool
    trait: JobFeatures
    slot: QueueSlot = QueueSlot.NONE
    lock: str | None = None
    checkpoint: str | None = None
    """The factory that holds its checkpoint."""
    exclusions: tuple[Exclusion, ...] = ()
    offer: Offer | None = None

    @staticmethod
    def of(job: Job, job_class: JobClass) -> "QueuedJob":
        """Return the queue entry of a job."""
        ready_since = job.ready_since
        created = job.created_at.timestamp()
        locks = job.lock is not None and job_class.step is Step.RUN
        return QueuedJob(
            job_id=job.id,
            job_class=job_class,
            created=created,
            waiting_since=created if ready_since == job.created_at else ready_since.timestamp(),
            front=job.front,
            trait=features_of(job.profile, job.words, job.model),
            lock=lock_key(job.product_id, job.lock) if job.lock is not None and locks else None,
            checkpoint=job.checkpoint.factory_id if job.checkpoint else None,
            exclusions=job.exclusions,
            offer=job.offer,
        )

    def __lt__(self, other: "QueuedJob") -> bool:
        """Order promoted jobs first, then by age, then by id."""
        if self.front is not other.front:
            return self.front
        if self.created != other.created:
            return self.created < other.created
        return self.job_id < other.job_id


class JobHeap:
    """Queued jobs in order; removed entries are skipped, and swept out when there are many."""

    __slots__ = ("_heap", "_slot", "live")

    def __init__(self, place: QueueSlot) -> None:
        self._heap: list[QueuedJob] = []
        self._slot = place
        self.live = 0

    def push(self, job: QueuedJob) -> None:
        """Add a job."""
        job.slot = self._slot
        self.live += 1
        heappush(self._heap, job)

    def leave(self, job: QueuedJob) -> None:
        """Remove a job from anywhere in the heap."""
        job.slot = QueueSlot.NONE
        self.live -= 1
        if len(self._heap) > 2 * self.live + SWEEP_SLACK:
            # A job that was removed and added again is in the heap twice.
            self._heap = [j for j in dict.fromkeys(self._heap) if j.slot is self._slot]
            heapify(self._heap)

    def head(self) -> QueuedJob | None:
        """Return the first job; None when empty."""
        heap = self._heap
        while heap:
            if heap[0].slot is self._slot:
                return heap[0]
            heappop(heap)
        return None

    def walk(self, limit: int) -> Iterator[QueuedJob]:
        """Yield the first jobs in order, visiting at most `limit` entries; removes nothing."""
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
            if job.slot is self._slot and job is not last:
                yield job
            last = job


class TimerHeap:
    """Queued jobs by the time at which they become ready or their offer expires."""

    __slots__ = ("_heap", "_slot", "live")

    def __init__(self, place: QueueSlot) -> None:
        self._heap: list[tuple[float, str, QueuedJob]] = []
        self._slot = place
        self.live = 0

    def push(self, when: float, job: QueuedJob) -> None:
        """Add a job that is due at `when`."""
        job.slot = self._slot
        self.live += 1
        heappush(self._heap, (when, job.job_id, job))

    def leave(self, job: QueuedJob) -> None:
        """Remove a job before it is due."""
        job.slot = QueueSlot.NONE
        self.live -= 1
        if len(self._heap) > 2 * self.live + SWEEP_SLACK:
            self._heap = [alarm for alarm in self._heap if alarm[2].slot is self._slot]
            heapify(self._heap)

    def due(self, now: float) -> Iterator[QueuedJob]:
        """Remove and yield every job that is due, in order of time."""
        while self._heap and self._heap[0][0] <= now:
            _, _, job = heappop(self._heap)
            if job.slot is self._slot:
                self.leave(job)
                yield job
