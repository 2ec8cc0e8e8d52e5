"""Which job comes next: by priority, then age, as far as locks and seats allow."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from gigafactory.domain.engine import program
from gigafactory.domain.job import Job, Step
from gigafactory.domain.lease import lock_key
from gigafactory.domain.moves import has_turn
from gigafactory.folder.machine import Machine
from gigafactory.folder.queue import Desk, leases_of
from gigafactory.folder.record import Kept


class Choice(NamedTuple):
    """A job whose turn it is: with an engine, or with why it can never run here."""

    kept: Kept
    engine: str | None
    never: str | None = None


def choices(desk: Desk, machine: Machine, jobs_max: int) -> Iterator[Choice]:
    """The jobs to begin with now; each is looked for when those before it have begun."""
    passed: set[str] = set()
    while (choice := _next(desk, machine, jobs_max, passed)) is not None:
        passed.add(choice.kept.job.id)
        yield choice


def _next(desk: Desk, machine: Machine, jobs_max: int, passed: set[str]) -> Choice | None:
    for kept in sorted(desk.kept.values(), key=lambda k: order(k.job)):
        job = kept.job
        if job.id in passed or leases_of(job) or not has_turn(job, desk.now):
            continue
        if (never := machine.why_never(job)) is not None:
            return Choice(kept, None, never)
        if _running(desk) >= jobs_max or _is_locked(desk, job):
            continue
        engine = machine.engine_for(job, _busy(desk), now=desk.now)
        if engine is not None:
            return Choice(kept, engine[0])
    return None


def order(job: Job) -> tuple[int, bool, float, str]:
    """The most urgent first, then what was promoted, then the oldest."""
    return (job.priority.rank, not job.front, job.created_at.timestamp(), job.id)


def _running(desk: Desk) -> int:
    return sum(len(leases_of(kept.job)) for kept in desk.kept.values())


def _busy(desk: Desk) -> dict[str, int]:
    leases = (lease for kept in desk.kept.values() for lease in leases_of(kept.job))
    return Counter(program(lease.engine) for lease in leases if lease.engine is not None)


def _is_locked(desk: Desk, job: Job) -> bool:
    if job.lock is None or job.step is not Step.RUN:
        return False
    return desk.holder(lock_key(job.product_id, job.lock)) is not None
