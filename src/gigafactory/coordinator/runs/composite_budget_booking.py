"""Bookings on the budgets of composites, as writes for the commit of the report."""

from collections.abc import Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.core.subtree import subtree
from gigafactory.domain.composite.budget import Ceiling, charge, mark_over_budget
from gigafactory.domain.job.change import JobChange, RecordChange, Write
from gigafactory.domain.job.job import OVER_BUDGET, Job
from gigafactory.domain.job.lifecycle import combine
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.job_file import CHILDREN_MAX


class CompositeBudgetBooking:
    """Books cost on composite budgets; the report that exhausts one closes the composite."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def charge(
        self, runs: Sequence[tuple[Run, Run]], other_writes: Sequence[Write]
    ) -> Sequence[Write]:
        """Return the bookings of these runs, and `other_writes` with the resulting changes."""
        ids = {key for before, _ in runs for key in before.ceilings}
        ceilings_by_key = await self._store.records_by_key(Ceiling, ids) if ids else {}
        writes: list[Write] = [*other_writes]
        for ceiling in ceilings_by_key.values():
            after = ceiling
            for before, run in runs:
                after = charge(after, before, run) if ceiling.key in before.ceilings else after
            if after == ceiling:
                continue
            if after.exhausted and not ceiling.exhausted:
                after = replace(after, reached_at=self._clock.now())
                writes = await self._close_composites(after, writes)
            writes.append(RecordChange(before=ceiling, after=replace(after, rev=ceiling.rev + 1)))
        return writes

    async def _close_composites(self, ceiling: Ceiling, writes: Sequence[Write]) -> list[Write]:
        """Add the changes that close a composite and all composites below it."""
        composite = await self._store.job(ceiling.job_id)
        if composite is None or composite.finished:
            return [*writes]
        below = await subtree(self._store, composite, most=CHILDREN_MAX)
        closing = {j.id: j for j in (composite, *below) if j.composite and not j.finished}
        after: list[Write] = []
        for write in writes:
            if isinstance(write, JobChange) and write.after.id in closing:
                del closing[write.after.id]
                after.append(combine(write, self._exceeded(write.after, ceiling)))
            elif isinstance(write, JobChange) and write.before is None:
                after.append(_born_closed(write, ceiling))
            else:
                after.append(write)
        return [*after, *(self._exceeded(job, ceiling) for job in closing.values())]

    def _exceeded(self, composite: Job, ceiling: Ceiling) -> JobChange:
        return mark_over_budget(composite, ceiling, now=self._clock.now())


def _born_closed(new: JobChange, ceiling: Ceiling) -> JobChange:
    """Close a composite that is created by the very report that exhausts the budget."""
    if ceiling.key not in new.after.ceilings:
        return new
    return replace(new, after=replace(new.after, flags=(*new.after.flags, OVER_BUDGET)))
