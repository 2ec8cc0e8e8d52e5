"""The ready queue: all queued jobs in memory, grouped so that only the head of a class is read."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from gigafactory.domain.job.job import Ask, Job, Priority, Step
from gigafactory.domain.queue.lock_queue import ClassQueue, LockQueue
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob, QueueSlot, TimerHeap

PASSED_OVER_MAX = 64
"""Maximum jobs of a class to pass over for one factory before skipping the class."""

ClassKey = tuple[str, Priority, Step, Ask]


class ReadyQueue:
    """The queued jobs by class, updated by `put` with every version of every job.

    Versions of a job must arrive in order of revision. To undo a change after a failed commit,
    put the stored version of the job again.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, QueuedJob] = {}
        self._classes: dict[ClassKey, ClassQueue] = {}
        self._groups: dict[JobClass, ClassQueue] = {}
        self._locks: dict[str, LockQueue] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._delayed = TimerHeap(QueueSlot.DELAYED)
        self._offered = TimerHeap(QueueSlot.OFFERED)
        self._offers: dict[str, dict[str, QueuedJob]] = {}
        self._demand: Counter[str] = Counter()
        self._demanded_tokens: frozenset[str] | None = None
        self._waiting_classes: frozenset[JobClass] | None = None
        self._urgency: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def put(self, job: Job) -> None:
        """Update the queue and the held locks with this version of a job."""
        self._note_locks(job)
        step = job.step
        if step is None:
            self._drop(job.id)
            return
        group = self._group(job, step)
        # Count before dropping the older version, so that a class of one job is not recreated.
        group.members += 1
        self._drop(job.id)
        queued = self._jobs[job.id] = QueuedJob.of(job, group.job_class)
        if job.not_before is not None:
            self._delayed.push(job.not_before.timestamp(), queued)
        else:
            self._enter(queued)

    def remove(self, job_id: str) -> None:
        """Remove a job and the locks it holds."""
        for key in self._held.get(job_id, ()):
            self.free_lock(key, job_id)
        self._drop(job_id)

    def take_lock(self, key: str, by: str) -> None:
        """Record that a job holds a lock; jobs waiting for it stop being candidates."""
        self._held[by] = (*(held for held in self._held.get(by, ()) if held != key), key)
        lock_queue = self._locks.setdefault(key, LockQueue())
        lock_queue.holders.add(by)
        lock_queue.refresh()

    def free_lock(self, key: str, by: str) -> None:
        """Record that a job no longer holds a lock; unknown locks are ignored."""
        rest = tuple(held for held in self._held.pop(by, ()) if held != key)
        if rest:
            self._held[by] = rest
        if (lock_queue := self._locks.get(key)) is not None:
            lock_queue.holders.discard(by)
            self._refresh_lock(key, lock_queue)

    def lock_holders(self, key: str) -> tuple[str, ...]:
        """Return the ids of the jobs that hold a lock or are promised it by an offer."""
        lock_queue = self._locks.get(key)
        return tuple(sorted(lock_queue.holders | lock_queue.promised)) if lock_queue else ()

    def lock_rivals(self) -> Iterator[Collection[QueuedJob]]:
        """Yield the groups of candidates that want the same free lock: one of each can start."""
        for lock_queue in self._locks.values():
            if len(lock_queue.candidates) > 1:
                yield lock_queue.candidates

    def find(self, job_id: str) -> QueuedJob | None:
        """Return the queue entry of a job; None when it is not queued."""
        return self._jobs.get(job_id)

    def advance(self, now: datetime) -> None:
        """Make delayed jobs that are due, and jobs with expired offers, candidates."""
        at = now.timestamp()
        for job in self._delayed.due(at):
            self._enter(job)
        for job in self._offered.due(at):
            self._expire_offer(job)

    @property
    def demanded_tokens(self) -> frozenset[str]:
        """The capability tokens needed by queued jobs."""
        if self._demanded_tokens is None:
            self._demanded_tokens = frozenset(self._demand)
        return self._demanded_tokens

    @property
    def urgency(self) -> Mapping[str, int]:
        """The rank of the most urgent queued class of each product."""
        if self._urgency is None:
            ranks: dict[str, int] = {}
            for job_class in self.waiting_classes:
                ranks[job_class.product_id] = min(
                    job_class.rank, ranks.get(job_class.product_id, job_class.rank)
                )
            self._urgency = ranks
        return self._urgency

    @property
    def waiting_classes(self) -> frozenset[JobClass]:
        """The classes with a queued job that is not delayed; the same object until it changes."""
        if self._waiting_classes is None:
            self._waiting_classes = frozenset(
                g.job_class for g in self._groups.values() if g.waiting
            )
        return self._waiting_classes

    def classes(self) -> Iterable[ClassQueue]:
        """Return every class queue, in no particular order."""
        return self._groups.values()

    def offered_to(self, factory_id: str) -> Iterable[QueuedJob]:
        """Yield the jobs offered to a factory whose lock is not held."""
        for job in self._offers.get(factory_id, {}).values():
            if job.lock is None or not self._locks[job.lock].holders:
                yield job

    def _note_locks(self, job: Job) -> None:
        leases = (*((job.lease,) if job.lease else ()), *job.ending)
        now = {key for lease in leases for key in lease.holds if key.startswith("lock/")}
        before = set(self._held.get(job.id, ()))
        for key in sorted(before - now):
            self.free_lock(key, job.id)
        for key in sorted(now - before):
            self.take_lock(key, job.id)

    def _group(self, job: Job, step: Step) -> ClassQueue:
        key = (job.product_id, job.priority, step, job.ask)
        group = self._classes.get(key)
        if group is None:
            group = self._classes[key] = ClassQueue(JobClass.of(job, step))
            self._groups[group.job_class] = group
        return group

    def _enter(self, job: QueuedJob) -> None:
        group = self._groups[job.job_class]
        group.waiting += 1
        if group.waiting == 1:
            self._count(group.job_class.needed_tokens, 1)
        if job.offer is None:
            self._enqueue(group, job)
            return
        self._offers.setdefault(job.offer.factory_id, {})[job.job_id] = job
        self._offered.push(job.offer.expires_at.timestamp(), job)
        if job.lock is not None:
            lock_queue = self._locks.setdefault(job.lock, LockQueue())
            lock_queue.promised.add(job.job_id)
            lock_queue.refresh()

    def _enqueue(self, group: ClassQueue, job: QueuedJob) -> None:
        if job.lock is None:
            group.ready.push(job)
        else:
            self._locks.setdefault(job.lock, LockQueue()).add(group, job)

    def _expire_offer(self, job: QueuedJob) -> None:
        """Make a job whose offer expired a candidate for claims."""
        if job.lock is not None:
            self._locks[job.lock].promised.discard(job.job_id)
        self._enqueue(self._groups[job.job_class], job)
        if job.lock is not None:
            self._locks[job.lock].refresh()

    def _drop(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        group = self._groups[job.job_class]
        if job.slot is QueueSlot.DELAYED:
            self._delayed.leave(job)
        else:
            self._leave(group, job)
        group.members -= 1
        if not group.members:
            del self._groups[job.job_class]
            job_class = job.job_class
            del self._classes[
                job_class.product_id, job_class.priority, job_class.step, job_class.ask
            ]

    def _leave(self, group: ClassQueue, job: QueuedJob) -> None:
        group.waiting -= 1
        if not group.waiting:
            self._count(group.job_class.needed_tokens, -1)
        if job.offer is not None:
            self._forget_offer(job.offer.factory_id, job.job_id)
        if job.slot is QueueSlot.OFFERED:
            self._offered.leave(job)
            if job.lock is not None:
                self._locks[job.lock].promised.discard(job.job_id)
        elif job.lock is None:
            group.ready.leave(job)
        else:
            self._locks[job.lock].drop(group, job)
        if job.lock is not None:
            self._refresh_lock(job.lock, self._locks[job.lock])

    def _forget_offer(self, factory_id: str, job_id: str) -> None:
        offers = self._offers[factory_id]
        del offers[job_id]
        if not offers:
            del self._offers[factory_id]

    def _refresh_lock(self, key: str, lock_queue: LockQueue) -> None:
        lock_queue.refresh()
        if lock_queue.is_idle:
            del self._locks[key]

    def _count(self, tokens: frozenset[str], by: int) -> None:
        for token in tokens:
            self._demand[token] += by
            if not self._demand[token]:
                del self._demand[token]
        self._demanded_tokens = self._waiting_classes = self._urgency = None


def is_excluded(job: QueuedJob | Job, factory_id: str, now: datetime) -> bool:
    """Return whether this factory is still excluded from this job."""
    return any(e.factory_id == factory_id and e.until > now for e in job.exclusions)


def head_for(
    group: ClassQueue, factory_id: str, *, now: datetime, skip: Collection[str]
) -> QueuedJob | None:
    """Return the first job of a class that this factory may get; None when there is none."""
    first = group.ready.head()
    if first is None or (not first.exclusions and first.job_id not in skip):
        return first
    for job in group.ready.walk(PASSED_OVER_MAX):
        if job.job_id not in skip and not is_excluded(job, factory_id, now):
            return job
    return None


def heads_to_offer(
    group: ClassQueue, *, now: datetime, skip: Collection[str]
) -> Iterator[QueuedJob]:
    """Yield the first job of a class that is not offered to any factory.

    While that job excludes some factory, the next jobs are yielded too: they may go there.
    """
    first = group.ready.head()
    if first is None:
        return
    if not (first.exclusions or first.offer is not None or first.job_id in skip):
        yield first
        return
    for job in group.ready.walk(PASSED_OVER_MAX + len(skip)):
        if job.job_id in skip or job.offer is not None:
            continue
        yield job
        if not any(e.until > now for e in job.exclusions):
            return
