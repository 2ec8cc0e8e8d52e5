"""Budgets: the verbs by which people set, see, pause and resume what a product may spend."""

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
    """The verbs on budgets; a product that nobody gave one has none, and works."""

    def __init__(self, store: Store, committer: Committer, clock: Clock, index: Index) -> None:
        """Keep budgets in this store."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index

    async def get(self, caller: Caller, product_id: str) -> Budget:
        """A product's budget; one without a ceiling where nobody has set any.

        Raises NotFound for a product that the caller may not see.
        """
        if not caller.can_see(product_id):
            raise NotFound("product", product_id)
        return await self._store.record(Budget, product_id) or Budget(product_id=product_id)

    async def all(self, caller: Caller) -> Sequence[Budget]:
        """Every budget that is kept, of the products that the caller may see."""
        return [b for b in await all_records(self._store, Budget) if caller.can_see(b.product_id)]

    async def put(self, caller: Caller, product_id: str, terms: BudgetTerms) -> Budget:
        """Set what a product may spend; what it has spent before counts.

        Raises Forbidden, NotFound, and Invalid for a ceiling below what is spent already.
        """
        caller.require("budgets")
        terms.check()
        known = await self.get(caller, product_id)
        runs: Sequence[Run] = ()
        if not known.opened:
            # First as if, so that a refusal leaves nothing behind; then for true, once every
            # report is booked: what was not booked by then does not change any more.
            now = self._clock.now()
            set_budget_terms(
                add_unbudgeted_runs(await all_records(self._store, Run), known, now=now),
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
        """From here on every report of the product is booked."""

        async def decide() -> Plan[None]:
            if await self._store.record(Budget, product_id) is not None:
                return Plan(None)
            return Plan(None, (RecordChange(before=None, after=Budget(product_id=product_id)),))

        system = replace(caller, request_key=None)
        await self._committer.execute(system, "budget", decide, type(None))
        await self._index.refresh(Budget, product_id)

    async def pause(self, caller: Caller, product_id: str, reason: str = "") -> Budget:
        """Give nothing of the product out until it is resumed; running work goes on.

        Raises Forbidden, NotFound.
        """
        caller.require("pause")
        await self.get(caller, product_id)

        def step(budget: Budget) -> Budget:
            return pause_budget(budget, caller.actor, reason, now=self._clock.now())

        return await self._step(caller, product_id, event_types.BUDGET_PAUSED, step, request=reason)

    async def resume(self, caller: Caller, product_id: str) -> Budget:
        """Lift somebody's pause.

        Raises Forbidden, NotFound, and BudgetPaused while the whole ceiling is spent.
        """
        caller.require("pause")
        await self.get(caller, product_id)

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
        """One step of a budget, told in the audit log; nothing when it changes nothing."""

        async def decide() -> Plan[Budget]:
            before = await self._store.record(Budget, product_id)
            known = before or Budget(product_id=product_id)
            after = step(known)
            if after == known:
                return Plan(known)
            after = replace(after, rev=before.rev + 1 if before else 1)
            event = budget_event(kind, after, caller.actor, now=self._clock.now())
            return Plan(after, (RecordChange(before=before, after=after, events=(event,)),))

        asked = (product_id, request)
        budget = await self._committer.execute(caller, kind, decide, Budget, request=asked)
        await self._index.refresh(Budget, product_id)
        return budget
