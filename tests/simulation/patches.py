"""Patches that remove guards from the program for the duration of a context."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.dispatch import preemptor
from gigafactory.coordinator.dispatch.dispatcher import Dispatcher
from gigafactory.coordinator.dispatch.grants import GrantRequest, Grants
from gigafactory.coordinator.dispatch.offer_streams import OfferStreams
from gigafactory.coordinator.duties.reaper import Reaper
from gigafactory.coordinator.files import logs
from gigafactory.coordinator.insights.event_streams import EventStreams
from gigafactory.coordinator.jobs import submissions
from gigafactory.coordinator.lifecycle import reports
from gigafactory.coordinator.runs.budget_booking import BudgetBooking
from gigafactory.coordinator.runs.composite_budget_booking import CompositeBudgetBooking
from gigafactory.domain.errors import Fenced
from gigafactory.domain.fleet import fleet_state, running_jobs
from gigafactory.domain.job import lease, operator_actions, run_outcome
from gigafactory.domain.job.change import (
    Guard,
    JobChange,
    KeyTaken,
    RecordChange,
    RevisionGuard,
    StaleRevision,
    Write,
)
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.job.run import Run
from gigafactory.domain.scheduler import preemption
from gigafactory.domain.tenancy import budget_reservation
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock

Patch = AbstractContextManager[None]


@contextmanager
def patched(*patches: tuple[object, str, object]) -> Iterator[None]:
    """Replace these attributes within the context."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in patches]
    try:
        for owner, name, other in patches:
            setattr(owner, name, other)
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)


def _store_refusal(rule: Callable[[MemoryStore, Write], StaleRevision | None]) -> Patch:
    return patched((MemoryStore, "_find_stale", rule))


def no_compare_and_set() -> Patch:
    """Accept a change of a job that has changed in the meantime."""
    original = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            return self._find_failed_guard(write.guards)
        return original(self, write)

    return _store_refusal(refusal)


def seq_not_compared() -> Patch:
    """Compare revisions, but ignore new events without a new revision."""
    original = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            now = self._jobs[write.after.id]
            moved = now.rev != write.before.rev
            return StaleRevision(now.id) if moved else self._find_failed_guard(write.guards)
        return original(self, write)

    return _store_refusal(refusal)


def keys_not_held(*kinds: str) -> Callable[[], Patch]:
    """Grant keys of these kinds although they are taken."""

    def plant() -> Patch:
        original = MemoryStore._find_taken_key  # noqa: SLF001 - bugs are planted from inside

        def find_taken_key(self: MemoryStore, writes: tuple[Write, ...]) -> KeyTaken | None:
            found = original(self, writes)
            return None if found and found.key.startswith(kinds) else found

        return patched((MemoryStore, "_find_taken_key", find_taken_key))

    return plant


def guards_ignored(ignored: Callable[[Guard], bool]) -> Callable[[], Patch]:
    """Ignore some guards in the store."""

    def plant() -> Patch:
        original = MemoryStore._find_failed_guard  # noqa: SLF001 - bugs are planted from inside

        def errors(self: MemoryStore, guards: tuple[Guard, ...]) -> StaleRevision | None:
            return original(self, tuple(guard for guard in guards if not ignored(guard)))

        return patched((MemoryStore, "_find_failed_guard", errors))

    return plant


def revisions_ignored(kind: str) -> Callable[[], Patch]:
    """Ignore guards on records of this kind."""
    return guards_ignored(lambda guard: isinstance(guard, RevisionGuard) and guard.kind == kind)


def fence(accepts: Callable[[Lease, str, int], bool]) -> Callable[[], Patch]:
    """Accept reports under a weaker fencing check."""

    def require(job: Job, factory_id: str, epoch: int) -> Lease:
        if job.lease is None or not accepts(job.lease, factory_id, epoch):
            raise Fenced(job.id, request_epoch=epoch, current=job.lease_epoch)
        return job.lease

    def plant() -> Patch:
        return patched(
            *((m, "require_lease", require) for m in (lease, run_outcome, reports, logs))
        )

    return plant


def altered(owner: object, name: str, **fields: Callable[[Job, Job], object]) -> Patch:
    """Make a rule set these fields wrongly, from the job before and after it."""
    original: Callable[..., JobChange] = vars(owner)[name]

    def rule(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = original(job, *args, **kwargs)
        wrong = {name: of(job, change.after) for name, of in fields.items()}
        return replace(change, after=replace(change.after, **wrong))

    return patched((owner, name, rule))


def free_seats_at_cancel() -> Patch:
    """Free slot and lock on cancel while the worker still runs."""
    original = operator_actions.cancel

    def cancel(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = original(job, *args, **kwargs)
        freed = job.lease.holds if job.lease else ()
        after = replace(change.after, ending=job.ending)
        return replace(change, after=after, free=(*change.free, *freed))

    return patched((operator_actions, "cancel", cancel))


def preempts_any_job() -> Patch:
    """Preempt running jobs whatever their priority."""
    original = running_jobs.may_preempt

    def may_preempt(victim: Job, rank: int) -> bool:
        return original(victim, min(rank, victim.priority.rank - 1))

    return patched(
        (preemption, "may_preempt", may_preempt), (preemptor, "may_preempt", may_preempt)
    )


def no_stored_responses() -> Patch:
    """Do not store responses with their change."""
    original = Committer.execute

    async def execute(self: Committer, caller: Caller, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await original(self, replace(caller, request_key=None), *args, **kwargs)

    return patched((Committer, "execute", execute), (Committer, "record_answer", lambda *_: ()))


def drop_one_event_type() -> Patch:
    """Drop one type of event."""
    original = MemoryStore._append  # noqa: SLF001 - bugs are planted from inside

    def append(self: MemoryStore, writes: tuple[Write, ...]) -> int:
        remaining = tuple(
            replace(write, events=tuple(e for e in write.events if e.type != "checkpoint"))
            if isinstance(write, JobChange)
            else write
            for write in writes
        )
        return original(self, remaining)

    return patched((MemoryStore, "_append", append))


def no_dep_guards() -> Patch:
    """Ignore a dependency that changes during a submit."""
    original: Callable[..., JobChange] = vars(submissions)["submit"]

    def submit(*args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        return replace(original(*args, **kwargs), guards=())

    return patched((submissions, "submit", submit))


def no_gap_extension() -> Patch:
    """Skip the reaper's check whether renewals could be served."""

    async def servable(self: Reaper, now: datetime) -> bool:
        del self, now
        return True

    return patched((Reaper, "_record_beat", servable))


def no_reaper() -> Patch:
    """Never end expired leases."""

    async def step(self: Reaper) -> None:
        del self

    return patched((Reaper, "step", step))


def skip_first_event() -> Patch:
    """Skip the first event after the requested position of a stream."""
    original = EventStreams._product_batches  # noqa: SLF001 - bugs are planted from inside

    def product_batches(self: EventStreams, caller: Any, position: int) -> Any:  # noqa: ANN401 - as it is
        return original(self, caller, position + 1 if position else 0)

    return patched((EventStreams, "_product_batches", product_batches))


def no_withdrawal() -> Patch:
    """Never withdraw an offer that is not accepted."""

    async def withdraw_expired(self: Dispatcher, job_id: str) -> None:
        del self, job_id

    return patched((Dispatcher, "_withdraw_expired", withdraw_expired))


def no_leader_guard() -> Patch:
    """Let a dispatcher continue after another has become leader."""
    return guards_ignored(
        lambda guard: isinstance(guard, RevisionGuard) and guard.kind == "leader"
    )()


def do_nothing(*_: object) -> None:
    """Do nothing, whatever the arguments."""


def streams_recorded_once() -> Patch:
    """Do not record an open stream again after the end of an old one."""

    async def step(self: OfferStreams) -> None:
        del self

    return patched((OfferStreams, "step", step))


def budgets_overwritten() -> Patch:
    """Accept a change of a budget that has changed in the meantime."""
    original = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, RecordChange) and isinstance(write.after, Budget):
            return self._find_failed_guard(write.guards)
        return original(self, write)

    return _store_refusal(refusal)


def no_budget_booking() -> Patch:
    """Store reported costs with the run, but do not book them."""

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

    return patched((BudgetBooking, "book_runs", book_runs))


def no_composite_guard() -> Patch:
    """Ignore that a composite ends or exhausts its budget during a grant."""
    original = Grants._guards  # noqa: SLF001 - bugs are planted from inside

    def guards(self: Grants, caller: Caller, request: GrantRequest) -> tuple[Guard, ...]:
        return original(self, caller, request._replace(parent=None))

    return patched((Grants, "_guards", guards))


def no_composite_booking() -> Patch:
    """Do not book costs of children on the budget of their composite."""

    async def charge(
        _self: CompositeBudgetBooking,
        _runs: Sequence[tuple[Run, Run]],
        other_writes: Sequence[Write],
    ) -> Sequence[Write]:
        return other_writes

    return patched((CompositeBudgetBooking, "charge", charge))


def ceiling_ignored() -> Patch:
    """Ignore an exhausted ceiling and refused reservations in grants."""

    def no_refusal(*_args: object, **_named: object) -> None:
        return None

    return patched(
        (Budget, "is_exhausted", lambda *_: False),
        (budget_reservation, "reservation_refusal", no_refusal),
        (fleet_state, "reservation_refusal", no_refusal),
    )


def clock_stands_still() -> Patch:
    """Read the wall clock alone; stand still after a step back until it catches up."""

    def advance(self: SystemClock, steady: int) -> None:
        self._steady_at = steady
        self._now = max(self._now, self._wall())
        self._last = self._to_millis()

    return patched((SystemClock, "_advance", advance))
