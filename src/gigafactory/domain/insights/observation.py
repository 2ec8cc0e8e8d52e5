"""Lessons: what the first tries of jobs teach, counted by all that they were tried with."""

import math
from datetime import date

import msgspec

from gigafactory.domain.insights.run_rollup import UNJUDGED_RESULTS, wall_sec
from gigafactory.domain.job.features import profile_name, size_of
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run

COST_FLOOR_NANO_USD = 1_000_000
"""What costs less counts as this: nothing has no logarithm, and a tenth of a cent is nothing."""
MONTHS_KEPT = 6
"""How many months lessons hold, this one included: engines change."""


class TaskFeatures(msgspec.Struct, frozen=True):
    """What is known of a job before anybody has tried it."""

    product: str
    repo: str | None = None
    profile: str | None = None
    """Its name, whatever the version."""
    language: str | None = None
    size: str | None = None


class RoutingChoice(msgspec.Struct, frozen=True):
    """What a job may be tried with: an engine on a factory, with a model where it is known."""

    engine: str
    factory: str | None = None
    model: str | None = None


class Cell(msgspec.Struct, frozen=True):
    """A task with a choice: all tries that have both in common are counted together."""

    task: TaskFeatures
    choice: RoutingChoice


class Observation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Whole numbers that add up exactly: how many tries, how they came out, how long and dear.

    Logarithms are in thousandths, with their squares, as times and costs differ by factors.
    """

    tries: int = 0
    passes: int = 0
    log_ms: int = 0
    log_ms_squared: int = 0
    priced: int = 0
    """Tries whose cost is known."""
    log_nanos: int = 0
    log_nanos_squared: int = 0


NO_OBSERVATION = Observation()
_NUMBERS = Observation.__struct_fields__


def add_observations(one: Observation, other: Observation, times: int = 1) -> Observation:
    """Both together; with -1 what is left of the first without the other."""
    return Observation(**{n: getattr(one, n) + times * getattr(other, n) for n in _NUMBERS})


def cell_of(run: Run) -> Cell | None:
    """What a run was a try of; None for one without an engine."""
    if run.engine is None:
        return None
    task = TaskFeatures(
        product=run.product_id,
        repo=run.repo,
        profile=profile_name(run.profile),
        language=run.language,
        size=size_of(run.words),
    )
    model = run.usage.model if run.usage is not None else None
    return Cell(task, RoutingChoice(run.engine, run.factory_id, model))


def observe_run(run: Run | None) -> Observation:
    """What a run teaches, if it is its job's first try: nothing until it can be judged."""
    if run is None or run.ended_at is None or run.step is not Step.RUN:
        return NO_OBSERVATION
    if run.engine is None or run.result is None or run.result in UNJUDGED_RESULTS:
        return NO_OBSERVATION
    log_ms = _log(max(1.0, wall_sec(run) * 1000))
    cost = run.usage.cost_nano_usd if run.usage is not None else None
    log_nanos = 0 if cost is None else _log(max(cost, COST_FLOOR_NANO_USD))
    return Observation(
        tries=1,
        passes=int(run.result is Result.OK),
        log_ms=log_ms,
        log_ms_squared=log_ms**2,
        priced=int(cost is not None),
        log_nanos=log_nanos,
        log_nanos_squared=log_nanos**2,
    )


def _log(value: float) -> int:
    return round(1000 * math.log(value))


class CellUpdate(msgspec.Struct, frozen=True):
    """What a step of a run adds to one cell."""

    cell: Cell
    observation: Observation = msgspec.field(name="lesson")


def cell_updates(before: Run | None, after: Run) -> tuple[CellUpdate, ...]:
    """What a step of a run adds to cells, should it be a first try; () for nothing.

    A model that is only known later moves what was counted to the cell that it belongs to.
    """
    known, now = observe_run(before), observe_run(after)
    cell = cell_of(after)
    if cell is None or (known == now == NO_OBSERVATION):
        return ()
    old = cell_of(before) if before is not None else None
    if known == NO_OBSERVATION or old is None:
        return (CellUpdate(cell, now),)
    if old == cell:
        return (CellUpdate(cell, add_observations(now, known, -1)),) if known != now else ()
    return (CellUpdate(old, add_observations(NO_OBSERVATION, known, -1)), CellUpdate(cell, now))


def month_offset(month: str, count: int) -> date:
    """The first day of the month so many months after (or, below zero, before) this one."""
    year, number = (int(part) for part in month.split("-"))
    months = year * 12 + number - 1 + count
    return date(months // 12, months % 12 + 1, 1)


def retained_months(today: date) -> list[str]:
    """The months whose lessons hold, the newest first."""
    this = f"{today:%Y-%m}"
    return [f"{month_offset(this, -back):%Y-%m}" for back in range(MONTHS_KEPT)]
