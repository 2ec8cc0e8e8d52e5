"""Patches that remove guards from the program for the duration of a context."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.dispatch import preemptor as evictor
from gigafactory.coordinator.dispatch.dispatcher import Dispatcher
from gigafactory.coordinator.dispatch.grants import GrantRequest, Grants
from gigafactory.coordinator.dispatch.offer_streams import OfferStreams
from gigafactory.coordinator.duties.reaper import Reaper
from gigafactory.coordinator.files import logs
from gigafactory.coordinator.insights.event_streams import EventStreams
from gigafactory.coordinator.jobs import submissions
from gigafactory.coordinator.lifecycle import reports
from gigafactory.coordinator.runs import fencing
from gigafactory.coordinator.runs.budget_booking import BudgetBooking
from gigafactory.coordinator.runs.composite_budget_booking import CompositeBudgetBooking
from gigafactory.domain.errors import Fenced
from gigafactory.domain.fleet import fleet_state as fleet
from gigafactory.domain.fleet import running_jobs as incumbents
from gigafactory.domain.job import lease
from gigafactory.domain.job import operator_actions as decisions
from gigafactory.domain.job import run_outcome as outcome
from gigafactory.domain.job.change import (
    Guard,
    JobChange,
    KeyTaken,
    RecordChange,
    Renewal,
    RevisionGuard,
    StaleRevision,
    Write,
)
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.job.run import Run
from gigafactory.domain.scheduler import preemption as eviction
from gigafactory.domain.tenancy import budget_reservation as spending
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock

Patch = AbstractContextManager[None]


@contextmanager
def swapped(*swaps: tuple[object, str, object]) -> Iterator[None]:
    """Replace these attributes within the context."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in swaps]
    try:
        for owner, name, other in swaps:
            setattr(owner, name, other)
        yield
    finally:
        for owner, name, known in before:
            setattr(owner, name, known)


def _store_refusal(rule: Callable[[MemoryStore, Write], StaleRevision | None]) -> Patch:
    return swapped((MemoryStore, "_find_stale", rule))


def no_compare_and_set() -> Patch:
    """The store accepts a change of a job that has changed in the meantime."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            return self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def seq_not_compared() -> Patch:
    """The store compares revisions, but ignores new events without a new revision."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            now = self._jobs[write.after.id]
            moved = now.rev != write.before.rev
            return StaleRevision(now.id) if moved else self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def keys_not_held(*kinds: str) -> Callable[[], Patch]:
    """The store grants keys of these kinds although they are taken."""

    def plant() -> Patch:
        known = MemoryStore._find_taken_key  # noqa: SLF001 - bugs are planted from inside

        def held(self: MemoryStore, writes: tuple[Write, ...]) -> KeyTaken | None:
            found = known(self, writes)
            return None if found and found.key.startswith(kinds) else found

        return swapped((MemoryStore, "_find_taken_key", held))

    return plant


def guards_ignored(ignored: Callable[[Guard], bool]) -> Callable[[], Patch]:
    """The store ignores some guards."""

    def plant() -> Patch:
        known = MemoryStore._find_failed_guard  # noqa: SLF001 - bugs are planted from inside

        def broken(self: MemoryStore, guards: tuple[Guard, ...]) -> StaleRevision | None:
            return known(self, tuple(guard for guard in guards if not ignored(guard)))

        return swapped((MemoryStore, "_find_failed_guard", broken))

    return plant


def revisions_ignored(kind: str) -> Callable[[], Patch]:
    """The store ignores guards on records of this kind."""
    return guards_ignored(lambda guard: isinstance(guard, RevisionGuard) and guard.kind == kind)


def fence(accepts: Callable[[Lease, str, int], bool]) -> Callable[[], Patch]:
    """Reports are accepted under a weaker fencing check."""

    def require(job: Job, factory_id: str, epoch: int) -> Lease:
        if job.lease is None or not accepts(job.lease, factory_id, epoch):
            raise Fenced(job.id, presented=epoch, current=job.lease_epoch)
        return job.lease

    def plant() -> Patch:
        return swapped(*((m, "require_lease", require) for m in (lease, outcome, reports, logs)))

    return plant


def altered(owner: object, name: str, **fields: Callable[[Job, Job], object]) -> Patch:
    """A rule sets these fields of the job wrongly, from the job before and after it."""
    known: Callable[..., JobChange] = vars(owner)[name]

    def rule(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = known(job, *args, **kwargs)
        wrong = {name: of(job, change.after) for name, of in fields.items()}
        return replace(change, after=replace(change.after, **wrong))

    return swapped((owner, name, rule))


def lease_over_at_once() -> Patch:
    """A cancel frees slot and lock while the worker still runs."""
    known = decisions.cancel

    def cancel(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = known(job, *args, **kwargs)
        freed = job.lease.holds if job.lease else ()
        after = replace(change.after, ending=job.ending)
        return replace(change, after=after, free=(*change.free, *freed))

    return swapped((decisions, "cancel", cancel))


def preempts_any_job() -> Patch:
    """A running job is preempted whatever its priority."""
    known = incumbents.may_preempt

    def may_preempt(victim: Job, rank: int) -> bool:
        return known(victim, min(rank, victim.priority.rank - 1))

    return swapped((eviction, "may_preempt", may_preempt), (evictor, "may_preempt", may_preempt))


def no_stored_responses() -> Patch:
    """Responses are not stored with their change."""
    known = Committer.execute

    async def execute(self: Committer, caller: Caller, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await known(self, replace(caller, request_key=None), *args, **kwargs)

    return swapped((Committer, "execute", execute), (Committer, "record_answer", lambda *_: ()))


def an_event_missing() -> Patch:
    """The store drops one type of event."""
    known = MemoryStore._append  # noqa: SLF001 - bugs are planted from inside

    def append(self: MemoryStore, writes: tuple[Write, ...]) -> int:
        kept = tuple(
            replace(write, events=tuple(e for e in write.events if e.type != "checkpoint"))
            if isinstance(write, JobChange)
            else write
            for write in writes
        )
        return known(self, kept)

    return swapped((MemoryStore, "_append", append))


def no_dep_guards() -> Patch:
    """A submit does not notice a dependency that changes at the same time."""
    known: Callable[..., JobChange] = vars(submissions)["submit"]

    def submit(*args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        return replace(known(*args, **kwargs), guards=())

    return swapped((submissions, "submit", submit))


def no_gap_extension() -> Patch:
    """The reaper does not check whether renewals could be served."""

    async def servable(self: Reaper, now: datetime) -> bool:
        del self, now
        return True

    return swapped((Reaper, "_record_beat", servable))


def no_reaper() -> Patch:
    """Expired leases never end."""

    async def step(self: Reaper) -> None:
        del self

    return swapped((Reaper, "step", step))


def a_stream_skips() -> Patch:
    """A stream skips the first event after the requested position."""
    known = EventStreams._product_batches  # noqa: SLF001 - bugs are planted from inside

    def skips(self: EventStreams, caller: Any, position: int) -> Any:  # noqa: ANN401 - as it is
        return known(self, caller, position + 1 if position else 0)

    return swapped((EventStreams, "_product_batches", skips))


def no_withdrawal() -> Patch:
    """An offer that is not accepted never expires."""

    async def lapse(self: Dispatcher, job_id: str) -> None:
        del self, job_id

    return swapped((Dispatcher, "_withdraw_expired", lapse))


def unguarded_leader() -> Patch:
    """A dispatcher continues after another has become leader."""
    return guards_ignored(
        lambda guard: isinstance(guard, RevisionGuard) and guard.kind == "leader"
    )()


def nothing(*_: object) -> None:
    """Do nothing, whatever the arguments."""


def streams_recorded_once() -> Patch:
    """After the end of an old stream, the open new one is not recorded again."""

    async def step(self: OfferStreams) -> None:
        del self

    return swapped((OfferStreams, "step", step))


def budgets_overwritten() -> Patch:
    """The store accepts a change of a budget that has changed in the meantime."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, RecordChange) and isinstance(write.after, Budget):
            return self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def nothing_booked() -> Patch:
    """Reported costs are stored with the run, but not booked."""

    async def book_runs(
        _self: BudgetBooking,
        _actor: str,
        *steps: tuple[Run, Run],
        other_writes: Sequence[Write] = (),
    ) -> list[Write]:
        return [
            *(RecordChange(before=before, after=after) for before, after in steps),
            *other_writes,
        ]

    return swapped((BudgetBooking, "book_runs", book_runs))


def composite_unguarded() -> Patch:
    """A grant does not notice that its composite ends or runs out of budget at the same time."""
    known = Grants._guards  # noqa: SLF001 - bugs are planted from inside

    def guards(self: Grants, caller: Caller, request: GrantRequest) -> tuple[Guard, ...]:
        return known(self, caller, request._replace(parent=None))

    return swapped((Grants, "_guards", guards))


def nothing_charged() -> Patch:
    """Costs of children are not booked on the budget of their composite."""

    async def charge(
        _self: CompositeBudgetBooking,
        _runs: Sequence[tuple[Run, Run]],
        other_writes: Sequence[Write],
    ) -> Sequence[Write]:
        return other_writes

    return swapped((CompositeBudgetBooking, "charge", charge))


def ceiling_ignored() -> Patch:
    """Grants ignore an exhausted ceiling and refused reservations."""

    def willing(*_args: object, **_named: object) -> None:
        return None

    return swapped(
        (Budget, "is_exhausted", lambda *_: False),
        (spending, "reservation_refusal", willing),
        (fleet, "reservation_refusal", willing),
    )


def clock_stands_still() -> Patch:
    """The coordinator's clock follows the wall clock, and waits for it after a step back."""

    def advance(self: SystemClock) -> None:
        self._now = max(self._now, self._wall())

    return swapped((SystemClock, "_advance", advance))


def renewals_shorten() -> Patch:
    """A renewal answers with less time than the grant did."""
    known = lease.renew

    def renew(job: Job, *args: Any, ttl: timedelta, **more: Any) -> Renewal:  # noqa: ANN401 - as the rule has it
        renewal = known(job, *args, ttl=ttl, **more)
        return replace(renewal, expires_at=renewal.expires_at - ttl * 3 / 4)

    return swapped((lease, "renew", renew))


def fenced_every_time() -> Patch:
    """Each fenced write of a worker is noted, not only the first."""
    known = lease.record_fenced

    def record(job: Job, *args: Any, **more: Any) -> JobChange | None:  # noqa: ANN401 - as the rule has it
        return known(replace(job, fenced=()), *args, **more)

    return swapped((fencing, "record_fenced", record))
