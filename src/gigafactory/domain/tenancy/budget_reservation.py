"""Budget reservations: reserve an amount for a run, book its cost, release the rest."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job import event_types
from gigafactory.domain.job.job import Ask, Event, Step
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import format_usd
from gigafactory.domain.tenancy.budget import (
    FULL_PERCENT,
    WARNING_PERCENTS,
    Budget,
    CostSample,
    add_spend,
    record_warning,
)

SAMPLES_KEPT = 60
SAMPLES_MIN = 5
"""Fewer similar runs than this give no estimate."""
TENTHS = 10
NINE = 9


def estimate_run_cost(
    samples: Sequence[CostSample], repo: str | None, engine: str | None
) -> int | None:
    """Return the 90th percentile of the cost of runs on the same repo (and engine, if given).

    None with too few samples.
    """
    like = sorted(
        sample.nanos
        for sample in samples
        if sample.repo == repo and (engine is None or sample.engine == engine)
    )
    if len(like) < SAMPLES_MIN:
        return None
    return like[-(-NINE * len(like) // TENTHS) - 1]


def reservation_for(budget: Budget, ask: Ask) -> int:
    """Return the amount to reserve for a run: the job's budget, an estimate, or the default."""
    if ask.budget_nano_usd is not None:
        return ask.budget_nano_usd
    like = estimate_run_cost(budget.samples, ask.repo, ask.engine)
    return budget.terms.reserve_nano_usd if like is None else like


def reservation_refusal(budget: Budget, ask: Ask, *, now: datetime) -> str | None:
    """Return why a run may not start on this budget; None when it may.

    A budget named by the job must fit. An estimate that does not fit waits until no reservation is
    open, then the run may start with the rest.
    """
    if stopped := budget.stop_reason(now):
        return stopped
    left, wanted = budget.remaining(now), reservation_for(budget, ask)
    if left is None or wanted <= left:
        return None
    if ask.budget_nano_usd is None and left and not budget.reserved_nano_usd:
        return None
    held = budget.reserved_nano_usd
    running = f" and ${format_usd(held)} reserved for running jobs" if held else ""
    return (
        f"the run needs ${format_usd(wanted)}, and ${format_usd(left)} is left of the budget"
        f" of product {budget.product_id}: {budget.describe(now)}{running}"
    )


def reserve_budget(budget: Budget, ask: Ask, *, now: datetime) -> tuple[Budget, int]:
    """Return the budget with a reservation for a run, and the reserved amount.

    Raises BudgetPaused.
    """
    if why := reservation_refusal(budget, ask, now=now):
        raise BudgetPaused(why)
    left, wanted = budget.remaining(now), reservation_for(budget, ask)
    part = wanted if left is None else min(wanted, left)
    return replace(budget, reserved_nano_usd=budget.reserved_nano_usd + part), part


def accrue_run_cost(before: Run, after: Run, *, budgeted: bool) -> Run:
    """Return the run after a report, with its cost so far; a lower figure is ignored.

    Without a budget, the cost is recorded as unbudgeted.
    """
    cost = after.usage.cost_nano_usd if after.usage else None
    more = max(0, (cost or 0) - before.spent_nano_usd)
    held = 0 if after.ended_at is not None else max(0, before.reserved_nano_usd - more)
    return replace(
        after,
        spent_nano_usd=before.spent_nano_usd + more,
        spent_tokens=max(before.spent_tokens, after.usage.tokens if after.usage else 0),
        unbudgeted_nano_usd=before.unbudgeted_nano_usd + (0 if budgeted else more),
        reserved_nano_usd=held,
    )


def settle_reservation(budget: Budget, before: Run, after: Run, *, now: datetime) -> Budget:
    """Return the budget after a report: book the added cost and release that much reservation."""
    estimated = after.usage is not None and after.usage.estimated
    more = after.spent_nano_usd - before.spent_nano_usd
    freed = before.reserved_nano_usd - after.reserved_nano_usd
    budget = record_warning(budget, add_spend(budget, more, estimated=estimated, now=now), now=now)
    samples = budget.samples
    if before.ended_at is None and after.ended_at is not None and after.spent_nano_usd:
        new = CostSample(after.repo, after.engine, after.spent_nano_usd)
        samples = (*samples, new)[-SAMPLES_KEPT:]
    reserved = budget.reserved_nano_usd - freed
    return replace(budget, reserved_nano_usd=reserved, samples=samples)


def affects_budget(before: Run, after: Run) -> bool:
    """Return whether a run update changes its spend or its reservation."""
    return (before.spent_nano_usd, before.reserved_nano_usd) != (
        after.spent_nano_usd,
        after.reserved_nano_usd,
    )


def add_unbudgeted_runs(runs: Sequence[Run], budget: Budget, *, now: datetime) -> Budget:
    """Return the budget with the unbudgeted cost of runs added, each on the day of its grant."""
    for run in runs:
        estimated = run.usage is not None and run.usage.estimated
        if run.product_id == budget.product_id and run.step is Step.RUN:
            at = min(run.granted_at, now)
            budget = add_spend(budget, run.unbudgeted_nano_usd, estimated=estimated, now=at)
    return replace(budget, opened=True)


def budget_warnings(
    before: Budget, after: Budget, actor: str, *, now: datetime
) -> tuple[Event, ...]:
    """Return the event for the highest warning level newly reached, if any."""
    reached = [
        at for at in WARNING_PERCENTS if before.percent_spent(now) < at <= after.percent_spent(now)
    ]
    if not reached:
        return ()
    kind = (
        event_types.BUDGET_EXCEEDED if reached[-1] == FULL_PERCENT else event_types.BUDGET_WARNING
    )
    return (budget_event(kind, after, actor, now=now, percent=reached[-1]),)


def budget_event(
    kind: str,
    budget: Budget,
    actor: str,
    *,
    now: datetime,
    **more: Any,  # noqa: ANN401 - small data of an event
) -> Event:
    """Return an audit event about a budget, with its ceiling and spend."""
    ceiling = budget.terms.ceiling_nano_usd
    data = {
        "product": budget.product_id,
        "period": budget.terms.period,
        "ceilingUsd": None if ceiling is None else format_usd(ceiling),
        "spentUsd": format_usd(budget.spent(now).nanos),
        **more,
    }
    return Event(type=kind, at=now, actor=actor, product_id=budget.product_id, data=data)
