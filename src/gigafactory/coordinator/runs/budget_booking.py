"""Budget reservations of grants and bookings of reports, as writes for the same commit."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.runs.composite_budget_booking import CompositeBudgetBooking
from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job.change import Guard, RecordChange, RevisionGuard, Write
from gigafactory.domain.job.job import Job, Step
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.budget_reservation import (
    accrue_run_cost,
    affects_budget,
    budget_warnings,
    reserve_budget,
    settle_reservation,
)


class BudgetReservation:
    """Budget reservations for the grants of one commit."""

    def __init__(self, budgets: Mapping[str, Budget], now: datetime) -> None:
        self._budgets = budgets
        self._now = now
        self._after: dict[str, Budget] = {}

    def reserve(self, job: Job) -> tuple[int, tuple[Guard, ...]]:
        """Reserve budget for a run; return the amount and the guards of the grant.

        Raises BudgetPaused.
        """
        product = job.product_id
        current = self._budgets.get(product)
        if current is None:
            return 0, (RevisionGuard(Budget.kind, product, 0),)
        if job.step is Step.SHIP:
            if stopped := current.stop_reason(self._now):
                raise BudgetPaused(stopped)
            return 0, (RevisionGuard(Budget.kind, product, current.rev),)
        budget = self._after.get(product, current)
        self._after[product], part = reserve_budget(budget, job.ask, now=self._now)
        return part, ()

    @property
    def writes(self) -> tuple[RecordChange, ...]:
        """The budgets with all reservations added."""
        return tuple(
            RecordChange(before=self._budgets[product], after=_next(self._budgets[product], after))
            for product, after in self._after.items()
        )


class BudgetBooking:
    """Reserves budget for grants and books the cost that runs report.

    Products without a budget cost nothing but a guard.
    """

    def __init__(self, store: Store, clock: Clock, index: Index) -> None:
        self._store = store
        self._clock = clock
        self._index = index
        self._ceilings = CompositeBudgetBooking(store, clock)

    def reservation(self) -> BudgetReservation:
        """Start a reservation from the indexed budgets; a stale one makes the commit fail."""
        return BudgetReservation(dict(self._index.budgets), self._clock.now())

    def apply_stored(self, writes: Iterable[RecordChange]) -> None:
        """Apply the budgets of a stored commit to the index."""
        for write in writes:
            if isinstance(write.after, Budget):
                self._index.apply_budget(write.after)

    async def book_runs(
        self, actor: str, *steps: tuple[Run, Run], other_writes: Sequence[Write] = ()
    ) -> Sequence[Write]:
        """Return the writes of runs before and after a report, and of the budgets they spend.

        A run of a product without a budget is guarded by the absence of one. `other_writes` belong
        to the same commit; they are returned too, combined with the changes of composites.
        """
        now = self._clock.now()
        known = {before.product_id for before, _ in steps} & self._index.budgets.keys()
        budgets = await self._store.records_by_key(Budget, known) if known else {}
        after = dict(budgets)
        writes: list[Write] = []
        runs: list[tuple[Run, Run]] = []
        for before, reported in steps:
            product = before.product_id
            run = accrue_run_cost(before, reported, budgeted=product in after)
            runs.append((before, run))
            if not affects_budget(before, run):
                writes.append(RecordChange(before=before, after=run))
            elif product in after:
                after[product] = settle_reservation(after[product], before, run, now=now)
                writes.append(RecordChange(before=before, after=run))
            else:
                none = RevisionGuard(Budget.kind, product, 0)
                writes.append(RecordChange(before=before, after=run, guards=(none,)))
        for product, budget in budgets.items():
            if after[product] is not budget:
                warnings = budget_warnings(budget, after[product], actor, now=now)
                written = _next(budget, after[product])
                writes.append(RecordChange(before=budget, after=written, events=warnings))
        return [*writes, *await self._ceilings.charge(runs, other_writes)]


def _next(before: Budget, after: Budget) -> Budget:
    return replace(after, rev=before.rev + 1)
