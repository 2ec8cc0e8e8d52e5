"""Chooses the next job of a folder: by priority, then age, as locks and seats allow."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gigafactory.domain.job.job import Job, Step
from gigafactory.domain.job.lease import lock_key
from gigafactory.domain.job.lifecycle import is_ready
from gigafactory.domain.manifest.engine_ref import base_engine
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.store import LockedQueue, leases_of

May = Callable[[str | None], bool]
"""Whether other work on this machine lets a run with this engine (None: without one) start."""


class JobChoice(NamedTuple):
    """A job to start: with an engine, or with the reason why it can never run here."""

    record: JobRecord
    engine: str | None
    never: str | None = None


def choices(
    locked: LockedQueue, machine: LocalMachine, jobs_max: int, may: May
) -> Iterator[JobChoice]:
    """Yield the jobs to start now; each is chosen after those before it have started."""
    passed: set[str] = set()
    while (choice := _next(locked, machine, jobs_max, may, passed)) is not None:
        passed.add(choice.record.job.id)
        yield choice


def _next(
    locked: LockedQueue, machine: LocalMachine, jobs_max: int, may: May, passed: set[str]
) -> JobChoice | None:
    for record in _in_turn(locked):
        job = record.job
        if job.id in passed:
            continue
        if (never := machine.why_never(job)) is not None:
            return JobChoice(record, None, never)
        if running(locked) >= jobs_max or _is_locked(locked, job):
            continue
        for engine in machine.engines_for(job, _busy(locked), now=locked.now):
            if may(engine):
                return JobChoice(record, engine)
    return None


def waiting(
    locked: LockedQueue, machine: LocalMachine, jobs_max: int
) -> Iterator[tuple[Job, str | None]]:
    """Yield the jobs that only wait for other work on this machine, with their engines."""
    if running(locked) >= jobs_max:
        return
    for record in _in_turn(locked):
        job = record.job
        if machine.why_never(job) is None and not _is_locked(locked, job):
            for engine in machine.engines_for(job, _busy(locked), now=locked.now)[:1]:
                yield job, engine


def _in_turn(locked: LockedQueue) -> list[JobRecord]:
    """Return the jobs that are ready and not running, next one first."""
    ready = (
        k for k in locked.records.values() if is_ready(k.job, locked.now) and not leases_of(k.job)
    )
    return sorted(ready, key=lambda k: order(k.job))


def order(job: Job) -> tuple[int, bool, float, str]:
    """Return the sort key: most urgent first, then promoted, then oldest."""
    return (job.priority.rank, not job.front, job.created_at.timestamp(), job.id)


def running(locked: LockedQueue) -> int:
    """Return the number of active runs of the folder's jobs, in any process."""
    return sum(len(leases_of(record.job)) for record in locked.records.values())


def _busy(locked: LockedQueue) -> dict[str, int]:
    leases = (lease for record in locked.records.values() for lease in leases_of(record.job))
    return Counter(base_engine(lease.engine) for lease in leases if lease.engine is not None)


def _is_locked(locked: LockedQueue, job: Job) -> bool:
    if job.lock is None or job.step is not Step.RUN:
        return False
    return locked.holder(lock_key(job.product_id, job.lock)) is not None
