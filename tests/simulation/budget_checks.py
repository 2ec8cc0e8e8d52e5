"""Checks of promise 12 on the event log and on the final runs and budgets."""

from collections import defaultdict
from collections.abc import Iterator

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.store.memory import MemoryStore
from tests.support.builders import NOON


def budget_findings(store: MemoryStore, entries: list[FeedEntry]) -> Iterator[str]:
    """Return wrong sums, and grants under an exhausted or paused budget."""
    records = list(store._records.values())  # noqa: SLF001 - the checker reads internal state
    runs = [record for record in records if isinstance(record, Run)]
    for budget in (record for record in records if isinstance(record, Budget)):
        yield from _sums(budget, [run for run in runs if run.product_id == budget.product_id])
    yield from _late_grants(entries)


def _sums(budget: Budget, runs: list[Run]) -> Iterator[str]:
    """Check that budgets have booked the costs of their runs, to the nano-dollar."""
    booked = sum(spend.nanos for spend in (budget.earlier, *budget.days.values()))
    spent = sum(run.spent_nano_usd for run in runs)
    if not budget.opened:
        spent -= sum(run.unbudgeted_nano_usd for run in runs)
    if booked != spent:
        yield f"12: {budget.product_id} has booked {booked}, but its runs have spent {spent}"
    reserved = sum(run.reserved_nano_usd for run in runs)
    if reserved != budget.reserved_nano_usd:
        recorded = budget.reserved_nano_usd
        yield f"12: {budget.product_id} reserves {recorded}, but its runs reserve {reserved}"
    for run in runs:
        if run.ended_at is not None and run.reserved_nano_usd:
            yield f"12: {run.id} has ended with a reservation of {run.reserved_nano_usd}"
        if run.usage is not None and run.spent_nano_usd < (run.usage.cost_nano_usd or 0):
            reported = run.usage.cost_nano_usd
            yield f"12: {run.id} reports {reported}, but has spent {run.spent_nano_usd}"


def _late_grants(entries: list[FeedEntry]) -> Iterator[str]:
    """Check that no job is granted while its product's budget is exhausted or paused."""
    ceilings: dict[str, int | None] = {}
    paused: set[str] = set()
    costs: dict[str, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    epochs: dict[str, int] = {}
    for event in (entry.event for entry in entries):
        product, spent = event.product_id, costs[event.product_id]
        if event.type == "budget_changed":
            ceiling_usd = event.data["ceilingUsd"]
            ceilings[product] = None if ceiling_usd is None else parse_usd(ceiling_usd)
        elif event.type in {"budget_paused", "budget_resumed"}:
            (paused.add if event.type == "budget_paused" else paused.discard)(product)
        elif event.type == "usage" and event.job_id is not None:
            run = (event.job_id, epochs[event.job_id])
            spent[run] = max(spent[run], event.data["costNanoUsd"])
        elif event.type == "assigned" and event.job_id is not None:
            epochs[event.job_id] = event.data["epoch"]
            ceiling, total = ceilings.get(product), sum(spent.values())
            if ceiling is not None and total >= ceiling:
                yield f"12: {event.job_id} is granted with {total} of {ceiling} spent"
            if product in paused:
                yield f"12: {event.job_id} is granted while {product} is paused"


def open_budgets(store: MemoryStore) -> list[Budget]:
    """Return the budgets that may hold back jobs."""
    records = store._records.values()  # noqa: SLF001 - the checker reads internal state
    budgets = [record for record in records if isinstance(record, Budget)]
    return [b for b in budgets if b.terms.ceiling_nano_usd is not None or b.stop_reason(NOON)]
