"""A product's budget: ceiling per period, spend per day, reservations, pause."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused, Fault, Invalid
from gigafactory.domain.manifest.units import NANOS_PER_USD, USD_MAX, format_usd

WARNING_PERCENTS = (50, 80, 95, 100)
"""Percentages of the ceiling that trigger a warning event."""
FULL_PERCENT = 100
DAYS_KEPT = 62
"""Number of days stored one by one; older days are merged into one sum."""
CEILING_MAX = USD_MAX * NANOS_PER_USD


class Period(StrEnum):
    """The period a ceiling applies to; days and months are in UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


class AtCeiling(StrEnum):
    """What happens to running jobs when the ceiling is reached."""

    STOP = "stop"
    FINISH = "finish"


class Spend(msgspec.Struct, frozen=True, array_like=True):
    """An amount in nano-dollars, and the part of it that is estimated, not metered."""

    nanos: int = 0
    estimated: int = 0

    def add(self, nanos: int, *, estimated: bool = False) -> "Spend":
        """Return this spend increased by an amount."""
        return Spend(self.nanos + nanos, self.estimated + (nanos if estimated else 0))


class CostSample(msgspec.Struct, frozen=True, array_like=True):
    """The cost of a finished run, used to estimate similar runs."""

    repo: str | None
    engine: str | None
    nanos: int


class BudgetPause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A manual pause of a product: its jobs are not dispatched."""

    by: str
    reason: str
    at: datetime


class BudgetTerms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configurable settings of a budget."""

    ceiling_nano_usd: int | None = None
    """None for no limit."""
    period: Period = Period.MONTH
    reserve_nano_usd: int = NANOS_PER_USD
    """The reservation for a run that names no budget and has no similar finished runs."""
    at_ceiling: AtCeiling = AtCeiling.STOP

    def check(self) -> None:
        """Raise Invalid if an amount is out of range."""
        faults = []
        if self.ceiling_nano_usd is not None and not 0 < self.ceiling_nano_usd <= CEILING_MAX:
            amount = format_usd(self.ceiling_nano_usd)
            expected = f"more than 0 and at most {USD_MAX}, or null for no ceiling"
            faults.append(Fault("ceilingUsd", f"is {amount}; expected {expected}"))
        if not 0 <= self.reserve_nano_usd <= CEILING_MAX:
            amount = format_usd(self.reserve_nano_usd)
            faults.append(Fault("reserveUsd", f"is {amount}; expected 0 to {USD_MAX}"))
        if faults:
            raise Invalid("the budget", faults)


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The budget of a product; updated by every grant and every report that adds cost."""

    kind: ClassVar[str] = "budget"
    expires_at: ClassVar[None] = None

    product_id: str
    terms: BudgetTerms = BudgetTerms()
    days: dict[str, Spend] = {}
    """Spend by UTC day, such as `2026-05-31`."""
    earlier: Spend = Spend()
    """Spend before those days."""
    reserved_nano_usd: int = 0
    """The sum of the unspent reservations of running jobs."""
    pause: BudgetPause | None = None
    warned_at: datetime | None = None
    """When the current warning level was reached."""
    samples: tuple[CostSample, ...] = ()
    opened: bool = False
    """Whether the cost of runs from before this budget existed has been added."""
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one budget per product."""
        return self.product_id

    def spent(self, now: datetime) -> Spend:
        """Return the spend of the current period."""
        begins = self.period_start(now)
        days = self.days.values() if begins is None else self._since(begins.date())
        total = self.earlier if begins is None else Spend()
        for day in days:
            total = Spend(total.nanos + day.nanos, total.estimated + day.estimated)
        return total

    def _since(self, first: date) -> Iterator[Spend]:
        return (spend for day, spend in self.days.items() if day >= first.isoformat())

    def period_start(self, now: datetime) -> datetime | None:
        """Return the start of the current period; None for a total ceiling."""
        if self.terms.period is Period.TOTAL:
            return None
        today = _day(now)
        return _midnight(today if self.terms.period is Period.DAY else today.replace(day=1))

    def period_end(self, now: datetime) -> datetime | None:
        """Return the start of the next period; None for a total ceiling."""
        begins = self.period_start(now)
        if begins is None:
            return None
        if self.terms.period is Period.DAY:
            return begins + timedelta(days=1)
        return _midnight((begins.date() + timedelta(days=31)).replace(day=1))

    def remaining(self, now: datetime) -> int | None:
        """Return the amount that can still be reserved, at least 0; None without a ceiling."""
        if self.terms.ceiling_nano_usd is None:
            return None
        taken = self.spent(now).nanos + self.reserved_nano_usd
        return max(0, self.terms.ceiling_nano_usd - taken)

    def percent_spent(self, now: datetime) -> int:
        """Return the spent percentage of the ceiling, rounded down; 0 without a ceiling."""
        ceiling = self.terms.ceiling_nano_usd
        return 0 if ceiling is None else self.spent(now).nanos * FULL_PERCENT // ceiling

    def warning_level(self, now: datetime) -> int:
        """Return the highest warning percentage that is reached; 0 for none."""
        return max((at for at in WARNING_PERCENTS if at <= self.percent_spent(now)), default=0)

    def is_exhausted(self, now: datetime) -> bool:
        """Return whether the whole ceiling is spent."""
        return self.percent_spent(now) >= FULL_PERCENT

    def stop_reason(self, now: datetime) -> str | None:
        """Return why no job of the product may start; None when jobs may start."""
        if self.pause is not None:
            why = f": {self.pause.reason}" if self.pause.reason else ""
            return f"product {self.product_id} was paused by {self.pause.by}{why}"
        if not self.is_exhausted(now):
            return None
        return f"the budget of product {self.product_id} is spent: {self.describe(now)}"

    def describe(self, now: datetime) -> str:
        """Return a phrase with the spend, the ceiling and the start of the next period."""
        spent = f"${format_usd(self.spent(now).nanos)}"
        ceiling = self.terms.ceiling_nano_usd
        if ceiling is None:
            return f"{spent} spent, no ceiling"
        span = {Period.DAY: "today", Period.MONTH: "this month", Period.TOTAL: "in total"}
        ends = self.period_end(now)
        until = f"; the next {self.terms.period} begins {ends:%Y-%m-%d} UTC" if ends else ""
        return f"{spent} of ${format_usd(ceiling)} {span[self.terms.period]}{until}"


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def add_spend(budget: Budget, nanos: int, *, estimated: bool, now: datetime) -> Budget:
    """Return the budget with an amount added to the spend of today."""
    if not nanos:
        return budget
    today = _day(now).isoformat()
    days = {**budget.days, today: budget.days.get(today, Spend()).add(nanos, estimated=estimated)}
    earlier = budget.earlier
    for day in sorted(days)[:-DAYS_KEPT]:
        old = days.pop(day)
        earlier = Spend(earlier.nanos + old.nanos, earlier.estimated + old.estimated)
    return replace(budget, days=days, earlier=earlier)


def record_warning(before: Budget, after: Budget, *, now: datetime) -> Budget:
    """Return `after`, with `warned_at` set if it reached a higher warning level than `before`."""
    further = after.warning_level(now) > before.warning_level(now)
    return replace(after, warned_at=now) if further else after


def set_budget_terms(budget: Budget, terms: BudgetTerms, *, now: datetime) -> Budget:
    """Return the budget with new terms.

    Raises Invalid for amounts out of range, and for a ceiling below the current spend.
    """
    terms.check()
    after = replace(budget, terms=terms)
    spent, ceiling = after.spent(now).nanos, terms.ceiling_nano_usd
    if ceiling is not None and ceiling < spent:
        message = (
            f"is {format_usd(ceiling)}, and {format_usd(spent)} is spent already in this"
            f" period ({terms.period}); expected at least that"
        )
        raise Invalid("the budget", [Fault("ceilingUsd", message)])
    return record_warning(budget, after, now=now)


def pause_budget(budget: Budget, by: str, reason: str, *, now: datetime) -> Budget:
    """Return the budget paused; an existing pause is kept."""
    return (
        budget if budget.pause else replace(budget, pause=BudgetPause(by=by, reason=reason, at=now))
    )


def resume_budget(budget: Budget, *, now: datetime) -> Budget:
    """Return the budget without its manual pause.

    Raises BudgetPaused when the ceiling is spent.
    """
    after = replace(budget, pause=None)
    if stopped := after.stop_reason(now):
        raise BudgetPaused(f"{stopped}; raise the ceiling with `aq budget set`, or wait")
    return after


class BurndownPoint(msgspec.Struct, frozen=True):
    """The spend of one day, with the running total and the rest of its period."""

    day: str
    nanos: int
    sum_nanos: int
    left_nanos: int | None


def burndown(budget: Budget, *, now: datetime) -> tuple[BurndownPoint, ...]:
    """Return one point per day of the current period that has spend, oldest first.

    For a total ceiling, the spend before the stored days is one point for the day `earlier`.
    """
    begins, ceiling = budget.period_start(now), budget.terms.ceiling_nano_usd
    first = "" if begins is None else begins.date().isoformat()
    days = [(day, budget.days[day].nanos) for day in sorted(budget.days) if day >= first]
    if begins is None and budget.earlier.nanos:
        days.insert(0, ("earlier", budget.earlier.nanos))
    points: list[BurndownPoint] = []
    total = 0
    for day, nanos in days:
        total += nanos
        left = None if ceiling is None else max(0, ceiling - total)
        points.append(BurndownPoint(day, nanos, total, left))
    return tuple(points)
