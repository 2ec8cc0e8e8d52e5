"""Budgets: set, show, pause and resume what a product may spend."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.budget import (
    Budget,
    BudgetTerms,
    pause_budget,
    resume_budget,
    set_budget_terms,
)
from gigafactory.domain.tenancy.budget_reservation import add_unbudgeted_runs, budget_event


class Budgets:
    """Actions on budgets; a product without one is not limited."""

    def __init__(self, store: Store, committer: Committer, clock: Clock, index: Index) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index

    async def get(self, caller: Caller, product_id: str) -> Budget:
        """Return a product's budget, without a ceiling if none was set.

        Raises NotFound for a product that the caller may not see.
        """
        if not caller.can_see(product_id):
            raise NotFound("product", product_id)
        return await self._store.record(Budget, product_id) or Budget(product_id=product_id)

    async def all(self, caller: Caller) -> Sequence[Budget]:
        """Return all stored budgets of products that the caller may see."""
        return [b for b in await all_records(self._store, Budget) if caller.can_see(b.product_id)]

    async def put(self, caller: Caller, product_id: str, terms: BudgetTerms) -> Budget:
        """Set a product's budget; earlier spending counts.

        Raises Forbidden, NotFound, and Invalid for a ceiling below what is spent already.
        """
        caller.require_product("budgets", product_id)
        terms.check()
        current = await self.get(caller, product_id)
        runs: Sequence[Run] = ()
        if not current.opened:
            # Check first, so that a refusal stores nothing. Then start booking, and only then sum
            # up the runs: spending that was not booked by then no longer changes.
            now = self._clock.now()
            set_budget_terms(
                add_unbudgeted_runs(await all_records(self._store, Run), current, now=now),
                terms,
                now=now,
            )
            await self._begin(caller, product_id)
            runs = await all_records(self._store, Run)

        def step(budget: Budget) -> Budget:
            now = self._clock.now()
            opened = budget if budget.opened else add_unbudgeted_runs(runs, budget, now=now)
            return set_budget_terms(opened, terms, now=now)

        return await self._step(caller, product_id, event_types.BUDGET_CHANGED, step, request=terms)

    async def _begin(self, caller: Caller, product_id: str) -> None:
        """Create the budget record, so that every later report of the product is booked."""

        async def decide() -> Plan[None]:
            if await self._store.record(Budget, product_id) is not None:
                return Plan(None)
            return Plan(None, (RecordChange(before=None, after=Budget(product_id=product_id)),))

        system = replace(caller, request_key=None)
        await self._committer.execute(system, "budget", decide, type(None))
        await self._index.refresh(Budget, product_id)

    async def pause(self, caller: Caller, product_id: str, reason: str = "") -> Budget:
        """Grant no more jobs of the product until it is resumed; running jobs continue.

        Raises Forbidden, NotFound.
        """
        caller.require_product("pause", product_id)

        def step(budget: Budget) -> Budget:
            return pause_budget(budget, caller.actor, reason, now=self._clock.now())

        return await self._step(caller, product_id, event_types.BUDGET_PAUSED, step, request=reason)

    async def resume(self, caller: Caller, product_id: str) -> Budget:
        """End a pause.

        Raises Forbidden, NotFound, and BudgetPaused while the whole ceiling is spent.
        """
        caller.require_product("pause", product_id)

        def step(budget: Budget) -> Budget:
            return resume_budget(budget, now=self._clock.now())

        return await self._step(caller, product_id, event_types.BUDGET_RESUMED, step)

    async def _step(
        self,
        caller: Caller,
        product_id: str,
        kind: str,
        step: Callable[[Budget], Budget],
        *,
        request: object = None,
    ) -> Budget:
        """Change a budget, with an audit event; do nothing if nothing changes."""

        async def decide() -> Plan[Budget]:
            before = await self._store.record(Budget, product_id)
            current = before or Budget(product_id=product_id)
            after = step(current)
            if after == current:
                return Plan(current)
            after = replace(after, rev=before.rev + 1 if before else 1)
            event = budget_event(kind, after, caller.actor, now=self._clock.now())
            return Plan(after, (RecordChange(before=before, after=after, events=(event,)),))

        idempotent_request = (product_id, request)
        budget = await self._committer.execute(
            caller, kind, decide, Budget, request=idempotent_request
        )
        await self._index.refresh(Budget, product_id)
        return budget
