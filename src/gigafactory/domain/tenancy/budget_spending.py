"""Spending: what a run sets aside of its product's budget, books as it goes, and gives back."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused
from gigafactory.domain.job import event_types
from gigafactory.domain.job.job import Ask, Event, Step
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import format_usd
from gigafactory.domain.tenancy.budget import ALL, WARNINGS, Budget, Sample, booked, warned

SAMPLES_KEPT = 60
LIKE_MIN = 5
"""Fewer runs say nothing about the next one."""
TENTHS = 10
NINE = 9


def estimate(samples: Sequence[Sample], repo: str | None, engine: str | None) -> int | None:
    """What nine of ten runs on a repo, with an engine where one is named, have stayed within.

    None when too few are known.
    """
    like = sorted(
        sample.nanos
        for sample in samples
        if sample.repo == repo and (engine is None or sample.engine == engine)
    )
    if len(like) < LIKE_MIN:
        return None
    return like[-(-NINE * len(like) // TENTHS) - 1]


def reservation(budget: Budget, ask: Ask) -> int:
    """What is to be set aside for a run: what the job names, else the like's, else the default."""
    if ask.budget_nano_usd is not None:
        return ask.budget_nano_usd
    like = estimate(budget.samples, ask.repo, ask.engine)
    return budget.terms.reserve_nano_usd if like is None else like


def refusal(budget: Budget, ask: Ask, *, now: datetime) -> str | None:
    """Say why a run is not begun on this budget; None when it may be.

    What a job names itself must fit. What was only reckoned waits for running work, and is content
    with what there is once nothing runs.
    """
    if stopped := budget.stopped(now):
        return stopped
    left, wanted = budget.left(now), reservation(budget, ask)
    if left is None or wanted <= left:
        return None
    if ask.budget_nano_usd is None and left and not budget.reserved_nano_usd:
        return None
    held = budget.reserved_nano_usd
    running = f" and ${format_usd(held)} set aside for running work" if held else ""
    return (
        f"the run needs ${format_usd(wanted)}, and ${format_usd(left)} is left of the budget"
        f" of product {budget.product_id}: {budget.told(now)}{running}"
    )


def reserve(budget: Budget, ask: Ask, *, now: datetime) -> tuple[Budget, int]:
    """The budget with a run's part set aside, and how much that is.

    Raises BudgetPaused.
    """
    if why := refusal(budget, ask, now=now):
        raise BudgetPaused(why)
    left, wanted = budget.left(now), reservation(budget, ask)
    part = wanted if left is None else min(wanted, left)
    return replace(budget, reserved_nano_usd=budget.reserved_nano_usd + part), part


def accrued(before: Run, after: Run, *, budgeted: bool) -> Run:
    """The run after a report, with what it has cost so far; a lower figure takes nothing back.

    What is not booked on a budget, because there is none, is noted as such.
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


def settled(budget: Budget, before: Run, after: Run, *, now: datetime) -> Budget:
    """The budget after a report: the difference is spent, what it took of its part is not held."""
    estimated = after.usage is not None and after.usage.estimated
    more = after.spent_nano_usd - before.spent_nano_usd
    freed = before.reserved_nano_usd - after.reserved_nano_usd
    budget = warned(budget, booked(budget, more, estimated=estimated, now=now), now=now)
    samples = budget.samples
    if before.ended_at is None and after.ended_at is not None and after.spent_nano_usd:
        new = Sample(after.repo, after.engine, after.spent_nano_usd)
        samples = (*samples, new)[-SAMPLES_KEPT:]
    reserved = budget.reserved_nano_usd - freed
    return replace(budget, reserved_nano_usd=reserved, samples=samples)


def spends(before: Run, after: Run) -> bool:
    """Whether a step of a run concerns its product's budget at all."""
    return (before.spent_nano_usd, before.reserved_nano_usd) != (
        after.spent_nano_usd,
        after.reserved_nano_usd,
    )


def opening(runs: Sequence[Run], budget: Budget, *, now: datetime) -> Budget:
    """The budget with what runs have cost while nobody kept it, each on the day of its grant."""
    for run in runs:
        estimated = run.usage is not None and run.usage.estimated
        if run.product_id == budget.product_id and run.step is Step.RUN:
            at = min(run.granted_at, now)
            budget = booked(budget, run.unbudgeted_nano_usd, estimated=estimated, now=at)
    return replace(budget, opened=True)


def warnings(before: Budget, after: Budget, actor: str, *, now: datetime) -> tuple[Event, ...]:
    """What has to be told when an amount was booked: the highest warning that it has reached."""
    reached = [at for at in WARNINGS if before.percent(now) < at <= after.percent(now)]
    if not reached:
        return ()
    kind = event_types.BUDGET_EXCEEDED if reached[-1] == ALL else event_types.BUDGET_WARNING
    return (line(kind, after, actor, now=now, percent=reached[-1]),)


def line(
    kind: str,
    budget: Budget,
    actor: str,
    *,
    now: datetime,
    **more: Any,  # noqa: ANN401 - small data of an event
) -> Event:
    """One line of the audit log on a budget, with how it stands."""
    ceiling = budget.terms.ceiling_nano_usd
    data = {
        "product": budget.product_id,
        "period": budget.terms.period,
        "ceilingUsd": None if ceiling is None else format_usd(ceiling),
        "spentUsd": format_usd(budget.spent(now).nanos),
        **more,
    }
    return Event(type=kind, at=now, actor=actor, product_id=budget.product_id, data=data)
