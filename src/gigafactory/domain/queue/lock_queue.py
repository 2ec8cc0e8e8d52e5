"""The jobs that wait for one lock: while it is free, the best of each class is a candidate."""

from collections.abc import Collection

from gigafactory.domain.queue.queued_job import JobClass, Pile, Place, Waiting


class ClassQueue:
    """The waiting jobs of one class; only those that could start now are in `ready`."""

    __slots__ = ("job_class", "members", "ready", "waiting")

    def __init__(self, job_class: JobClass) -> None:
        self.job_class = job_class
        self.ready = Pile(Place.READY)
        self.members = 0
        """All jobs of the class."""
        self.waiting = 0
        """Those whose time has come."""


class LockLine:
    """Who holds a lock, whom it is promised to by an offer, and who waits for it.

    One job a class is lifted into its class while the lock is free, so that a thousand jobs behind
    one lock cost no search, and one that no factory can run does not stand in the others' way.
    """

    __slots__ = ("_lifted", "_parked", "holders", "promised")

    def __init__(self) -> None:
        self.holders: set[str] = set()
        self.promised: set[str] = set()
        self._parked: dict[ClassQueue, Pile] = {}
        self._lifted: dict[ClassQueue, Waiting] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody holds it, is promised it or waits for it."""
        return not (self.holders or self.promised or self._parked or self._lifted)

    @property
    def rivals(self) -> Collection[Waiting]:
        """The candidates, one a class, of which only one can have the lock."""
        return self._lifted.values()

    def add(self, group: ClassQueue, job: Waiting) -> None:
        """Queue a job up for the lock."""
        self._park(group, job)
        self._lift(group)

    def drop(self, group: ClassQueue, job: Waiting) -> None:
        """Let a job out of the line; the next of its class takes its place."""
        if self._lifted.get(group) is job:
            del self._lifted[group]
            group.ready.leave(job)
            self._lift(group)
        else:
            self._unpark(group, job)

    def settle(self) -> None:
        """Bring the candidates into line after holders or promises changed."""
        if self.holders or self.promised:
            for group, job in self._lifted.items():
                group.ready.leave(job)
                self._park(group, job)
            self._lifted.clear()
        else:
            for group in list(self._parked):
                self._lift(group)

    def _lift(self, group: ClassQueue) -> None:
        pile = self._parked.get(group)
        best = pile.head() if pile is not None else None
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

    def _park(self, group: ClassQueue, job: Waiting) -> None:
        self._parked.setdefault(group, Pile(Place.PARKED)).push(job)

    def _unpark(self, group: ClassQueue, job: Waiting) -> None:
        pile = self._parked[group]
        pile.leave(job)
        if not pile.live:
            del self._parked[group]
