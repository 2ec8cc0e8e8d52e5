"""The ready queue: all waiting jobs in memory, of which only the heads of classes are looked at."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from gigafactory.domain.job.job import Ask, Job, Priority, Step
from gigafactory.domain.queue.lock_queue import ClassQueue, LockLine
from gigafactory.domain.queue.queued_job import Alarms, JobClass, Place, Waiting

PASSED_OVER_MAX = 64
"""How many jobs of a class are passed over for one factory before the class is left for later."""

ClassKey = tuple[str, Priority, Step, Ask]


class ReadyQueue:
    """The waiting jobs by class, kept up by handing it every version of every job.

    Versions of a job come in the order of their revisions. What must be undone because a commit
    was lost is undone by putting the job as it is.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Waiting] = {}
        self._classes: dict[ClassKey, ClassQueue] = {}
        self._groups: dict[JobClass, ClassQueue] = {}
        self._locks: dict[str, LockLine] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._delayed = Alarms(Place.DELAYED)
        self._offered = Alarms(Place.OFFERED)
        self._offers: dict[str, dict[str, Waiting]] = {}
        self._demand: Counter[str] = Counter()
        self._demanded: frozenset[str] | None = None
        self._kinds: frozenset[JobClass] | None = None
        self._urgency: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def put(self, job: Job) -> None:
        """Know this version of a job: what it waits for, or the locks that it holds."""
        self._note_locks(job)
        step = job.step
        if step is None:
            self._drop(job.id)
            return
        group = self._group(job, step)
        # Counted before the older version goes, so that a class of one is not made anew.
        group.members += 1
        self._drop(job.id)
        waiting = self._jobs[job.id] = Waiting.of(job, group.job_class)
        if job.not_before is not None:
            self._delayed.push(job.not_before.timestamp(), waiting)
        else:
            self._enter(waiting)

    def remove(self, job_id: str) -> None:
        """Forget a job, and the locks that it held."""
        for key in self._held.get(job_id, ()):
            self.free_lock(key, job_id)
        self._drop(job_id)

    def take_lock(self, key: str, by: str) -> None:
        """Note that a job holds a lock: those who wait for it are no candidates."""
        self._held[by] = (*(held for held in self._held.get(by, ()) if held != key), key)
        line = self._locks.setdefault(key, LockLine())
        line.holders.add(by)
        line.settle()

    def free_lock(self, key: str, by: str) -> None:
        """Note that a job does not hold a lock any more; unknown ones are left alone."""
        kept = tuple(held for held in self._held.pop(by, ()) if held != key)
        if kept:
            self._held[by] = kept
        if (line := self._locks.get(key)) is not None:
            line.holders.discard(by)
            self._settled(key, line)

    def holders(self, key: str) -> tuple[str, ...]:
        """Name the jobs that hold a lock, or are promised it by an offer."""
        line = self._locks.get(key)
        return tuple(sorted(line.holders | line.promised)) if line else ()

    def rivals(self) -> Iterator[Collection[Waiting]]:
        """Give the candidates of which only one can start, as all of them want one free lock."""
        for line in self._locks.values():
            if len(line.rivals) > 1:
                yield line.rivals

    def waiting(self, job_id: str) -> Waiting | None:
        """Give what is remembered of a waiting job."""
        return self._jobs.get(job_id)

    def advance(self, now: datetime) -> None:
        """Let in the jobs whose time has come, and those whose offers have lapsed."""
        at = now.timestamp()
        for job in self._delayed.due(at):
            self._enter(job)
        for job in self._offered.due(at):
            self._lapse(job)

    @property
    def demanded(self) -> frozenset[str]:
        """The capability tokens that jobs are waiting for."""
        if self._demanded is None:
            self._demanded = frozenset(self._demand)
        return self._demanded

    @property
    def urgency(self) -> Mapping[str, int]:
        """The rank of the most urgent waiting class of each product."""
        if self._urgency is None:
            ranks: dict[str, int] = {}
            for kind in self.kinds:
                ranks[kind.product_id] = min(kind.rank, ranks.get(kind.product_id, kind.rank))
            self._urgency = ranks
        return self._urgency

    @property
    def kinds(self) -> frozenset[JobClass]:
        """The classes of which some job waits; the same object until that changes."""
        if self._kinds is None:
            self._kinds = frozenset(g.job_class for g in self._groups.values() if g.waiting)
        return self._kinds

    def classes(self) -> Iterable[ClassQueue]:
        """Give every class of waiting jobs, in no order that matters."""
        return self._groups.values()

    def offered_to(self, factory_id: str) -> Iterable[Waiting]:
        """Give the jobs that stand offered to a factory and whose locks nobody holds."""
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

    def _enter(self, job: Waiting) -> None:
        group = self._groups[job.job_class]
        group.waiting += 1
        if group.waiting == 1:
            self._count(group.job_class.wants, 1)
        if job.offer is None:
            self._line_up(group, job)
            return
        self._offers.setdefault(job.offer.factory_id, {})[job.job_id] = job
        self._offered.push(job.offer.expires_at.timestamp(), job)
        if job.lock is not None:
            line = self._locks.setdefault(job.lock, LockLine())
            line.promised.add(job.job_id)
            line.settle()

    def _line_up(self, group: ClassQueue, job: Waiting) -> None:
        if job.lock is None:
            group.ready.push(job)
        else:
            self._locks.setdefault(job.lock, LockLine()).add(group, job)

    def _lapse(self, job: Waiting) -> None:
        """Make a job whose offer was not taken up in time a candidate for those who ask."""
        if job.lock is not None:
            self._locks[job.lock].promised.discard(job.job_id)
        self._line_up(self._groups[job.job_class], job)
        if job.lock is not None:
            self._locks[job.lock].settle()

    def _drop(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        group = self._groups[job.job_class]
        if job.place is Place.DELAYED:
            self._delayed.leave(job)
        else:
            self._leave(group, job)
        group.members -= 1
        if not group.members:
            del self._groups[job.job_class]
            kind = job.job_class
            del self._classes[kind.product_id, kind.priority, kind.step, kind.ask]

    def _leave(self, group: ClassQueue, job: Waiting) -> None:
        group.waiting -= 1
        if not group.waiting:
            self._count(group.job_class.wants, -1)
        if job.offer is not None:
            self._unoffer(job.offer.factory_id, job.job_id)
        if job.place is Place.OFFERED:
            self._offered.leave(job)
            if job.lock is not None:
                self._locks[job.lock].promised.discard(job.job_id)
        elif job.lock is None:
            group.ready.leave(job)
        else:
            self._locks[job.lock].drop(group, job)
        if job.lock is not None:
            self._settled(job.lock, self._locks[job.lock])

    def _unoffer(self, factory_id: str, job_id: str) -> None:
        offers = self._offers[factory_id]
        del offers[job_id]
        if not offers:
            del self._offers[factory_id]

    def _settled(self, key: str, line: LockLine) -> None:
        line.settle()
        if line.idle:
            del self._locks[key]

    def _count(self, tokens: frozenset[str], by: int) -> None:
        for token in tokens:
            self._demand[token] += by
            if not self._demand[token]:
                del self._demand[token]
        self._demanded = self._kinds = self._urgency = None


def excluded(job: Waiting, factory_id: str, now: datetime) -> bool:
    """Tell whether this factory is not to be asked about this job yet."""
    return any(e.factory_id == factory_id and e.until > now for e in job.exclusions)


def head_for(
    group: ClassQueue, factory_id: str, *, now: datetime, skip: Collection[str]
) -> Waiting | None:
    """Give the first job of a class that this factory may be given; None when there is none."""
    first = group.ready.head()
    if first is None or (not first.exclusions and first.job_id not in skip):
        return first
    for job in group.ready.walk(PASSED_OVER_MAX):
        if job.job_id not in skip and not excluded(job, factory_id, now):
            return job
    return None


def heads_to_offer(group: ClassQueue, *, now: datetime, skip: Collection[str]) -> Iterator[Waiting]:
    """Give the first job of a class that stands offered to nobody.

    While that one may not go to some factory, the next are given too: they might.
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
