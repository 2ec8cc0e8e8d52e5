"""Promise 12, judged on the event log and on what runs and budgets have in the end."""

from collections import defaultdict
from collections.abc import Iterator

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.store.memory import MemoryStore
from tests.support.builders import NOON


def money_faults(store: MemoryStore, entries: list[FeedEntry]) -> Iterator[str]:
    """Sums that do not agree, and whatever was begun after a ceiling was spent."""
    records = list(store._records.values())  # noqa: SLF001 - seen from outside
    runs = [record for record in records if isinstance(record, Run)]
    for budget in (record for record in records if isinstance(record, Budget)):
        yield from _sums(budget, [run for run in runs if run.product_id == budget.product_id])
    yield from _begun_late(entries)


def _sums(budget: Budget, runs: list[Run]) -> Iterator[str]:
    """What runs have spent is what the budget has booked, to the last nano-dollar."""
    booked = sum(spend.nanos for spend in (budget.earlier, *budget.days.values()))
    spent = sum(run.spent_nano_usd for run in runs)
    if not budget.opened:
        spent -= sum(run.unbudgeted_nano_usd for run in runs)
    if booked != spent:
        yield f"12: {budget.product_id} has booked {booked}, and its runs have spent {spent}"
    held = sum(run.reserved_nano_usd for run in runs)
    if held != budget.reserved_nano_usd:
        yield f"12: {budget.product_id} sets {budget.reserved_nano_usd} aside, and runs have {held}"
    for run in runs:
        if run.ended_at is not None and run.reserved_nano_usd:
            yield f"12: {run.id} has ended, and keeps {run.reserved_nano_usd}"
        if run.usage is not None and run.spent_nano_usd < (run.usage.cost_nano_usd or 0):
            yield f"12: {run.id} told {run.usage.cost_nano_usd}, and {run.spent_nano_usd} counts"


def _begun_late(entries: list[FeedEntry]) -> Iterator[str]:
    """No job of a product is granted while its budget is exhausted or paused."""
    ceilings: dict[str, int | None] = {}
    paused: set[str] = set()
    costs: dict[str, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    epochs: dict[str, int] = {}
    for event in (entry.event for entry in entries):
        product, spent = event.product_id, costs[event.product_id]
        if event.type == "budget_changed":
            told = event.data["ceilingUsd"]
            ceilings[product] = None if told is None else parse_usd(told)
        elif event.type in {"budget_paused", "budget_resumed"}:
            (paused.add if event.type == "budget_paused" else paused.discard)(product)
        elif event.type == "usage" and event.job_id is not None:
            run = (event.job_id, epochs[event.job_id])
            spent[run] = max(spent[run], event.data["costNanoUsd"])
        elif event.type == "assigned" and event.job_id is not None:
            epochs[event.job_id] = event.data["epoch"]
            ceiling, total = ceilings.get(product), sum(spent.values())
            if ceiling is not None and total >= ceiling:
                yield f"12: {event.job_id} is granted, with {total} of {ceiling} spent"
            if product in paused:
                yield f"12: {event.job_id} is granted, and {product} is paused"


def open_budgets(store: MemoryStore) -> list[Budget]:
    """The budgets under which something may have to wait."""
    records = store._records.values()  # noqa: SLF001 - seen from outside
    budgets = [record for record in records if isinstance(record, Budget)]
    return [b for b in budgets if b.terms.ceiling_nano_usd is not None or b.stop_reason(NOON)]
