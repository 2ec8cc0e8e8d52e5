"""The queue of a lock: while it is free, the first job of each class is a candidate."""

from collections.abc import Collection

from gigafactory.domain.queue.queued_job import JobClass, JobHeap, QueuedJob, QueueSlot


class ClassQueue:
    """The queued jobs of one class; only jobs that could start now are in `ready`."""

    __slots__ = ("job_class", "members", "ready", "waiting")

    def __init__(self, job_class: JobClass) -> None:
        self.job_class = job_class
        self.ready = JobHeap(QueueSlot.READY)
        self.members = 0
        """The number of queued jobs, delayed ones included."""
        self.waiting = 0
        """The number of queued jobs that are not delayed."""


class LockQueue:
    """The holders of a lock, the offers that promise it, and the jobs waiting for it.

    While the lock is free, one job per class is lifted into the `ready` heap of its class. So a
    thousand jobs behind one lock cost no search, and a job that no factory can run does not block
    jobs of other classes.
    """

    __slots__ = ("_lifted", "_parked", "holders", "promised")

    def __init__(self) -> None:
        self.holders: set[str] = set()
        self.promised: set[str] = set()
        self._parked: dict[ClassQueue, JobHeap] = {}
        self._lifted: dict[ClassQueue, QueuedJob] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no job holds the lock, is promised it or waits for it."""
        return not (self.holders or self.promised or self._parked or self._lifted)

    @property
    def candidates(self) -> Collection[QueuedJob]:
        """The candidates, one per class; only one of them can get the lock."""
        return self._lifted.values()

    def add(self, group: ClassQueue, job: QueuedJob) -> None:
        """Add a job that waits for the lock."""
        self._park(group, job)
        self._lift(group)

    def drop(self, group: ClassQueue, job: QueuedJob) -> None:
        """Remove a job; the next one of its class becomes a candidate."""
        if self._lifted.get(group) is job:
            del self._lifted[group]
            group.ready.leave(job)
            self._lift(group)
        else:
            self._unpark(group, job)

    def refresh(self) -> None:
        """Recompute the candidates after the holders or promises changed."""
        if self.holders or self.promised:
            for group, job in self._lifted.items():
                group.ready.leave(job)
                self._park(group, job)
            self._lifted.clear()
        else:
            for group in list(self._parked):
                self._lift(group)

    def _lift(self, group: ClassQueue) -> None:
        heap = self._parked.get(group)
        best = heap.head() if heap is not None else None
        if best is None or self.holders or self.promised:
            return
        current = self._lifted.get(group)
        if current is not None:
            if not best < current:
                return
            group.ready.leave(current)
            self._park(group, current)
        self._unpark(group, best)
        self._lifted[group] = best
        group.ready.push(best)

    def _park(self, group: ClassQueue, job: QueuedJob) -> None:
        self._parked.setdefault(group, JobHeap(QueueSlot.PARKED)).push(job)

    def _unpark(self, group: ClassQueue, job: QueuedJob) -> None:
        heap = self._parked[group]
        heap.leave(job)
        if not heap.live:
            del self._parked[group]
