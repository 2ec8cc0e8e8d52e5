"""Observations: outcome counts of first attempts, by job features and choice."""

import math
from collections.abc import Iterable
from datetime import date

import msgspec

from gigafactory.domain.insights.run_rollup import UNJUDGED_RESULTS, first_try_ids, wall_sec
from gigafactory.domain.job.features import profile_name, size_of
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Run

COST_FLOOR_NANO_USD = 1_000_000
"""Lower costs count as this, as 0 has no logarithm."""
MONTHS_KEPT = 6
"""Months of observations that are used, this one included; engines change."""


class TaskFeatures(msgspec.Struct, frozen=True):
    """The features of a job that are known before its first attempt."""

    product: str
    repo: str | None = None
    profile: str | None = None
    """The profile name without version."""
    language: str | None = None
    size: str | None = None


class RoutingChoice(msgspec.Struct, frozen=True):
    """An engine on a factory, with its model if known."""

    engine: str
    factory: str | None = None
    model: str | None = None


class Cell(msgspec.Struct, frozen=True):
    """Job features and a choice; attempts with equal cells are counted together."""

    task: TaskFeatures
    choice: RoutingChoice


class Observation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Counts of attempts and passes, and sums of log duration and log cost, as exact integers.

    Logarithms are in thousandths; their squares are summed too, for the variance.
    """

    tries: int = 0
    passes: int = 0
    log_ms: int = 0
    log_ms_squared: int = 0
    priced: int = 0
    """Attempts with a known cost."""
    log_nanos: int = 0
    log_nanos_squared: int = 0


NO_OBSERVATION = Observation()
_NUMBERS = Observation.__struct_fields__


def add_observations(one: Observation, other: Observation, times: int = 1) -> Observation:
    """Return the sum of both, or the difference with `times=-1`."""
    return Observation(**{n: getattr(one, n) + times * getattr(other, n) for n in _NUMBERS})


def cell_of(run: Run) -> Cell | None:
    """Return the cell of a run; None for a run without an engine."""
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
    """Return the observation of a run as a first attempt; empty until it has a judged result."""
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


def observe_first_tries(runs: Iterable[Run]) -> list[tuple[Cell, Observation]]:
    """Return the observations of the first judged run of each job."""
    run_steps = [run for run in runs if run.step is Step.RUN]
    first = first_try_ids(run_steps)
    cells = [(cell_of(run), observe_run(run)) for run in run_steps if run.id in first]
    return [(cell, observation) for cell, observation in cells if cell is not None]


def _log(value: float) -> int:
    return round(1000 * math.log(value))


class CellUpdate(msgspec.Struct, frozen=True):
    """The observation that one update of a run adds to a cell."""

    cell: Cell
    observation: Observation = msgspec.field(name="lesson")


def cell_updates(before: Run | None, after: Run) -> tuple[CellUpdate, ...]:
    """Return what an update of a run adds to cells, if it is a first attempt; () for nothing.

    When the model becomes known later, the counts move to the cell with that model.
    """
    earlier, now = observe_run(before), observe_run(after)
    cell = cell_of(after)
    if cell is None or (earlier == now == NO_OBSERVATION):
        return ()
    old = cell_of(before) if before is not None else None
    if earlier == NO_OBSERVATION or old is None:
        return (CellUpdate(cell, now),)
    if old == cell:
        return (CellUpdate(cell, add_observations(now, earlier, -1)),) if earlier != now else ()
    return (CellUpdate(old, add_observations(NO_OBSERVATION, earlier, -1)), CellUpdate(cell, now))


def month_offset(month: str, count: int) -> date:
    """Return the first day of the month `count` months after (or before, if negative) `month`."""
    year, number = (int(part) for part in month.split("-"))
    months = year * 12 + number - 1 + count
    return date(months // 12, months % 12 + 1, 1)


def retained_months(today: date) -> list[str]:
    """Return the months whose observations are used, newest first."""
    this = f"{today:%Y-%m}"
    return [f"{month_offset(this, -back):%Y-%m}" for back in range(MONTHS_KEPT)]
