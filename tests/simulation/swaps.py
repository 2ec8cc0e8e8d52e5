"""How guards are taken out: something of the program is swapped for a while."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
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

Patch = AbstractContextManager[None]


@contextmanager
def swapped(*swaps: tuple[object, str, object]) -> Iterator[None]:
    """Have these attributes be something else for a while."""
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
    """The store takes a change whatever the job has become since."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            return self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def seq_not_compared() -> Patch:
    """The store compares revisions, and overlooks events that moved none."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, JobChange) and write.before is not None:
            now = self._jobs[write.after.id]
            moved = now.rev != write.before.rev
            return StaleRevision(now.id) if moved else self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def keys_not_held(*kinds: str) -> Callable[[], Patch]:
    """The store gives keys of these kinds to anybody."""

    def plant() -> Patch:
        known = MemoryStore._find_taken_key  # noqa: SLF001 - bugs are planted from inside

        def held(self: MemoryStore, writes: tuple[Write, ...]) -> KeyTaken | None:
            found = known(self, writes)
            return None if found and found.key.startswith(kinds) else found

        return swapped((MemoryStore, "_find_taken_key", held))

    return plant


def guards_unheard(unheard: Callable[[Guard], bool]) -> Callable[[], Patch]:
    """The store does not look at some of the guards."""

    def plant() -> Patch:
        known = MemoryStore._find_failed_guard  # noqa: SLF001 - bugs are planted from inside

        def broken(self: MemoryStore, guards: tuple[Guard, ...]) -> StaleRevision | None:
            return known(self, tuple(guard for guard in guards if not unheard(guard)))

        return swapped((MemoryStore, "_find_failed_guard", broken))

    return plant


def unmoved(kind: str) -> Callable[[], Patch]:
    """The store does not look at guards on records of this kind."""
    return guards_unheard(lambda guard: isinstance(guard, RevisionGuard) and guard.kind == kind)


def fence(accepts: Callable[[Lease, str, int], bool]) -> Callable[[], Patch]:
    """A worker is heard on weaker grounds."""

    def require(job: Job, factory_id: str, epoch: int) -> Lease:
        if job.lease is None or not accepts(job.lease, factory_id, epoch):
            raise Fenced(job.id, presented=epoch, current=job.lease_epoch)
        return job.lease

    def plant() -> Patch:
        return swapped(*((m, "require_lease", require) for m in (lease, outcome, reports, logs)))

    return plant


def altered(owner: object, name: str, **fields: Callable[[Job, Job], object]) -> Patch:
    """A rule leaves these fields of the job wrong; each is told what was and what should be."""
    known: Callable[..., JobChange] = vars(owner)[name]

    def rule(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = known(job, *args, **kwargs)
        wrong = {name: of(job, change.after) for name, of in fields.items()}
        return replace(change, after=replace(change.after, **wrong))

    return swapped((owner, name, rule))


def lease_over_at_once() -> Patch:
    """A cancel frees slot and lock while the worker still runs, and forgets that it does."""
    known = decisions.cancel

    def cancel(job: Job, *args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        change = known(job, *args, **kwargs)
        freed = job.lease.holds if job.lease else ()
        after = replace(change.after, ending=job.ending)
        return replace(change, after=after, free=(*change.free, *freed))

    return swapped((decisions, "cancel", cancel))


def anybody_makes_way() -> Patch:
    """A running job is asked to make way whatever its priority is."""
    known = incumbents.may_preempt

    def may_preempt(victim: Job, rank: int) -> bool:
        return known(victim, min(rank, victim.priority.rank - 1))

    return swapped((eviction, "may_preempt", may_preempt), (evictor, "may_preempt", may_preempt))


def no_answers() -> Patch:
    """Answers are not kept with the change that they are about."""
    known = Committer.execute

    async def execute(self: Committer, caller: Caller, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return await known(self, replace(caller, request_key=None), *args, **kwargs)

    return swapped((Committer, "execute", execute), (Committer, "record_answer", lambda *_: ()))


def an_event_missing() -> Patch:
    """One kind of event is forgotten."""
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
    """A new job does not notice that a dependency moves while it is taken in."""
    known: Callable[..., JobChange] = vars(submissions)["submit"]

    def submit(*args: Any, **kwargs: Any) -> JobChange:  # noqa: ANN401 - as the rule has it
        return replace(known(*args, **kwargs), guards=())

    return swapped((submissions, "submit", submit))


def no_gap_extension() -> Patch:
    """The reaper does not ask whether renewals could be served."""

    async def servable(self: Reaper, now: datetime) -> bool:
        del self, now
        return True

    return swapped((Reaper, "_record_beat", servable))


def no_reaper() -> Patch:
    """Nobody ends an expired lease."""

    async def step(self: Reaper) -> None:
        del self

    return swapped((Reaper, "step", step))


def a_stream_skips() -> Patch:
    """A follower is served from one event further on than it asked."""
    known = EventStreams._product_batches  # noqa: SLF001 - bugs are planted from inside

    def skips(self: EventStreams, caller: Any, position: int) -> Any:  # noqa: ANN401 - as it is
        return known(self, caller, position + 1 if position else 0)

    return swapped((EventStreams, "_product_batches", skips))


def no_withdrawal() -> Patch:
    """An offer that nobody takes up stands for ever."""

    async def lapse(self: Dispatcher, job_id: str) -> None:
        del self, job_id

    return swapped((Dispatcher, "_withdraw_expired", lapse))


def unguarded_leader() -> Patch:
    """A dispatcher goes on after another has taken over."""
    return guards_unheard(
        lambda guard: isinstance(guard, RevisionGuard) and guard.kind == "leader"
    )()


def nothing(*_: object) -> None:
    """Do nothing, whatever it is told."""


def streams_said_once() -> Patch:
    """The end of an old stream is not made good by the one that came after it."""

    async def step(self: OfferStreams) -> None:
        del self

    return swapped((OfferStreams, "step", step))


def budgets_overwritten() -> Patch:
    """The store takes a budget whatever it has become since."""
    known = MemoryStore._find_stale  # noqa: SLF001 - bugs are planted from inside

    def refusal(self: MemoryStore, write: Write) -> StaleRevision | None:
        if isinstance(write, RecordChange) and isinstance(write.after, Budget):
            return self._find_failed_guard(write.guards)
        return known(self, write)

    return _store_refusal(refusal)


def nothing_booked() -> Patch:
    """What runs tell of their cost is kept, and not booked."""

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
    """A grant does not notice that the composite of its job ends, or has spent all, meanwhile."""
    known = Grants._guards  # noqa: SLF001 - bugs are planted from inside

    def guards(self: Grants, caller: Caller, wish: GrantRequest) -> tuple[Guard, ...]:
        return known(self, caller, wish._replace(parent=None))

    return swapped((Grants, "_guards", guards))


def nothing_charged() -> Patch:
    """What is spent below a composite is not booked on its ceiling."""

    async def charge(
        _self: CompositeBudgetBooking,
        _runs: Sequence[tuple[Run, Run]],
        other_writes: Sequence[Write],
    ) -> Sequence[Write]:
        return other_writes

    return swapped((CompositeBudgetBooking, "charge", charge))


def ceiling_unheard() -> Patch:
    """Grants go on when a ceiling is spent, and whatever they set aside."""

    def willing(*_args: object, **_named: object) -> None:
        return None

    return swapped(
        (Budget, "is_exhausted", lambda *_: False),
        (spending, "reservation_refusal", willing),
        (fleet, "reservation_refusal", willing),
    )
