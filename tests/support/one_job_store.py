"""A store of one job that enforces the rules of every store and checks the job's invariants."""

from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from gigafactory.domain.job.change import JobChange, LeaseExpiredGuard, Renewal
from gigafactory.domain.job.job import EDITED, FINAL, RUNNING, Event, Job, Lease, Stage, Step
from gigafactory.domain.job.lifecycle import ALLOWED, name_key

REOPENING = {"requeued", "scope_overridden"}


def leases(job: Job) -> tuple[Lease, ...]:
    """Return all leases that hold keys: the live one and the ending ones."""
    return (*job.ending, job.lease) if job.lease else job.ending


class OneJobStore:
    """A store of one job with compare-and-set, unique keys, lease expiries and events."""

    def __init__(self, job: Job) -> None:
        """Start with a job that holds its name."""
        self.job = self._job = job
        self._expiries: dict[int, datetime] = {}
        self.held = {name_key(job)}
        self.events: list[Event] = []
        self.first = job.seq

    def _read(self) -> Job:
        """Return the job; its leases have their newest expiry."""
        live = self._job.lease and self._live(self._job.lease)
        return replace(self._job, lease=live, ending=tuple(map(self._live, self._job.ending)))

    def _live(self, lease: Lease) -> Lease:
        return replace(lease, expires_at=self._expiries[lease.epoch])

    def commit(self, write: JobChange | Renewal) -> bool:
        """Store a write unless the job has changed, a guard fails or a key is taken."""
        if isinstance(write, Renewal):
            return self._renew(write)
        before = write.before
        assert before is not None
        if (before.rev, before.seq) != (self._job.rev, self._job.seq):
            return False
        if not all(
            self._guard_holds(guard)
            for guard in write.guards
            if isinstance(guard, LeaseExpiredGuard)
        ):
            return False
        if (self.held - set(write.free)) & set(write.take):
            return False
        self._check_step(before, write)
        self._store(before, write)
        self.job = self._read()
        self._check_job(self.job)
        return True

    def _renew(self, renewal: Renewal) -> bool:
        if self._job.lease is None or self._job.lease.epoch != renewal.epoch:
            return False
        before, preemption = self._expiries[renewal.epoch], self._job.preemption
        assert renewal.expires_at >= before, "renewing never shortens"
        if preemption is not None:
            assert renewal.expires_at <= max(before, preemption.deadline), "nor does it evade"
        self._expiries[renewal.epoch] = renewal.expires_at
        self.job = self._read()
        return True

    def _guard_holds(self, guard: LeaseExpiredGuard) -> bool:
        expiry = self._expiries.get(guard.epoch)
        return expiry is not None and expiry <= guard.at

    def _store(self, before: Job, change: JobChange) -> None:
        before_expiries = {lease.epoch: lease.expires_at for lease in leases(before)}
        now = {lease.epoch: lease.expires_at for lease in leases(change.after)}
        for epoch in before_expiries.keys() - now.keys():
            del self._expiries[epoch]
        self._expiries |= {e: at for e, at in now.items() if before_expiries.get(e) != at}
        assert set(change.free) <= self.held, "nothing is freed that is not held"
        self.held = (self.held - set(change.free)) | set(change.take)
        self.events += change.events
        self._job = change.after

    def _check_step(self, before: Job, change: JobChange) -> None:
        after, events = change.after, change.events
        assert events, "no change without its event"
        assert [e.seq for e in events] == list(range(before.seq + 1, after.seq + 1)), "gapless"
        times = [before.updated_at, *(e.at for e in events)]
        assert times == sorted(times), "time never goes back"
        assert after.updated_at == times[-1]
        assert events[-1].stage is after.stage
        kinds = {e.type for e in events}
        fenced = kinds == {"fenced"}
        assert (after.rev == before.rev) == fenced, "only a fenced write moves no revision"
        stages = [before.stage, *(e.stage for e in events)]
        assert all(one is next_ or (one, next_) in ALLOWED for one, next_ in pairwise(stages))
        if before.stage is not after.stage:
            assert before.stage not in FINAL or kinds & REOPENING, "a final stage is final"
            assert not fenced
        assert after.lease_epoch >= before.lease_epoch, "the epoch only grows"
        if "lease_expired" in kinds or len(after.ending) > len(before.ending):
            assert after.lease_epoch == before.lease_epoch + 1, "a lost lease is fenced at once"
        if after.lease is not None and "assigned" in kinds:
            assert before.lease is None, "at most one live lease"
            assert after.lease.epoch == after.lease_epoch == before.lease_epoch + 1
        if after.checkpoint != before.checkpoint:
            assert before.lease is not None or "requeued" in kinds, "checkpoints are an owner's"
        if before.lease is not None and before.lease.step is Step.SHIP:
            same = after.head == before.head
            assert same or ("ship_failed" in kinds and EDITED in after.flags), "decided again"
            assert same or after.approvals == (), "a newer commit voids earlier approvals"
            assert after.stage in {Stage.TESTING, Stage.SHIPPED}, (
                "no transition interrupts a ship step"
            )

    def _check_job(self, job: Job) -> None:
        held = {key for lease in leases(job) for key in lease.holds}
        assert sum(len(lease.holds) for lease in leases(job)) == len(held), "no key twice"
        assert self.held == held | (set() if job.finished else {name_key(job)}), "no hold leaks"
        epochs = [lease.epoch for lease in leases(job)]
        assert epochs == sorted(set(epochs))
        assert all(epoch < job.lease_epoch for epoch in [lease.epoch for lease in job.ending])
        if job.lease is not None:
            assert job.lease.epoch == job.lease_epoch
        running = job.lease is not None and job.lease.step is Step.RUN
        shipping = job.lease is not None and job.lease.step is Step.SHIP
        assert running == (job.stage in RUNNING)
        assert not shipping or (job.stage is Stage.TESTING and job.ship is not None)
        assert job.ship is None or job.stage is Stage.TESTING
        assert job.ship is None or job.ship.commit == job.head
        assert job.offer is None or job.step is job.offer.step, "an offer is of what is to be done"
        assert job.preemption is None or running
        assert job.attempts <= job.terms.retry_max + 1, "attempts stay within their limit"
        assert len(self.events) == job.seq - self.first
