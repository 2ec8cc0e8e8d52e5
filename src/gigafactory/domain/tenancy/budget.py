"""A product's budget: its ceiling for a period, what is spent and set aside, who paused it."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import BudgetPaused, Fault, Invalid
from gigafactory.domain.manifest.units import NANOS_PER_USD, USD_MAX, format_usd

WARNINGS = (50, 80, 95, 100)
"""The shares of a ceiling, in percent, that are told when they are reached."""
ALL = 100
DAYS_KEPT = 62
"""So many days are kept one by one; what was spent before them is kept as one sum."""
CEILING_MAX = USD_MAX * NANOS_PER_USD


class Period(StrEnum):
    """What a ceiling is for; days and months are those of UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


class AtCeiling(StrEnum):
    """What becomes of running work when everything is spent."""

    STOP = "stop"
    FINISH = "finish"


class Spend(msgspec.Struct, frozen=True, array_like=True):
    """A sum in nano-dollars, and how much of it no engine has metered."""

    nanos: int = 0
    estimated: int = 0

    def plus(self, nanos: int, *, estimated: bool = False) -> "Spend":
        """This sum and another amount."""
        return Spend(self.nanos + nanos, self.estimated + (nanos if estimated else 0))


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What a run came to: by such the next ones that are like it are reckoned."""

    repo: str | None
    engine: str | None
    nanos: int


class Pause(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Somebody has said that nothing more is to be given out."""

    by: str
    reason: str
    at: datetime


class Terms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What people set of a budget."""

    ceiling_nano_usd: int | None = None
    """None: nothing is limited."""
    period: Period = Period.MONTH
    reserve_nano_usd: int = NANOS_PER_USD
    """What is set aside for a run that names no budget and has no like."""
    at_ceiling: AtCeiling = AtCeiling.STOP

    def check(self) -> None:
        """Refuse what nobody can mean.

        Raises Invalid.
        """
        faults = []
        if self.ceiling_nano_usd is not None and not 0 < self.ceiling_nano_usd <= CEILING_MAX:
            found = format_usd(self.ceiling_nano_usd)
            expected = f"more than 0 and at most {USD_MAX}, or null for no ceiling"
            faults.append(Fault("ceilingUsd", f"is {found}; expected {expected}"))
        if not 0 <= self.reserve_nano_usd <= CEILING_MAX:
            found = format_usd(self.reserve_nano_usd)
            faults.append(Fault("reserveUsd", f"is {found}; expected 0 to {USD_MAX}"))
        if faults:
            raise Invalid("the budget", faults)


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a product may spend, and has; written with every report that spends, and every grant."""

    kind: ClassVar[str] = "budget"
    expires_at: ClassVar[None] = None

    product_id: str
    terms: Terms = Terms()
    days: dict[str, Spend] = {}
    """By day in UTC, as `2026-05-31`."""
    earlier: Spend = Spend()
    """Before those days."""
    reserved_nano_usd: int = 0
    """What running work may still spend of what was set aside for it."""
    pause: Pause | None = None
    warned_at: datetime | None = None
    """When the highest of the warnings was reached that holds."""
    samples: tuple[Sample, ...] = ()
    opened: bool = False
    """Whether what was spent before anybody kept this record is counted in."""
    rev: int = 1

    @property
    def key(self) -> str:
        """One budget a product."""
        return self.product_id

    def spent(self, now: datetime) -> Spend:
        """What was spent in the period that this moment belongs to."""
        begins = self.begins(now)
        days = self.days.values() if begins is None else self._since(begins.date())
        total = self.earlier if begins is None else Spend()
        for day in days:
            total = Spend(total.nanos + day.nanos, total.estimated + day.estimated)
        return total

    def _since(self, first: date) -> Iterator[Spend]:
        return (spend for day, spend in self.days.items() if day >= first.isoformat())

    def begins(self, now: datetime) -> datetime | None:
        """When the period of this moment began; None for a ceiling in total."""
        if self.terms.period is Period.TOTAL:
            return None
        today = _day(now)
        return _midnight(today if self.terms.period is Period.DAY else today.replace(day=1))

    def ends(self, now: datetime) -> datetime | None:
        """When the next period begins; None for a ceiling in total."""
        begins = self.begins(now)
        if begins is None:
            return None
        if self.terms.period is Period.DAY:
            return begins + timedelta(days=1)
        return _midnight((begins.date() + timedelta(days=31)).replace(day=1))

    def left(self, now: datetime) -> int | None:
        """What may still be set aside, at least 0; None without a ceiling."""
        if self.terms.ceiling_nano_usd is None:
            return None
        taken = self.spent(now).nanos + self.reserved_nano_usd
        return max(0, self.terms.ceiling_nano_usd - taken)

    def percent(self, now: datetime) -> int:
        """How much of the ceiling is spent, in whole percent, rounded down; 0 without a ceiling."""
        ceiling = self.terms.ceiling_nano_usd
        return 0 if ceiling is None else self.spent(now).nanos * ALL // ceiling

    def warning(self, now: datetime) -> int:
        """The highest of the warnings that is reached; 0 for none."""
        return max((at for at in WARNINGS if at <= self.percent(now)), default=0)

    def exhausted(self, now: datetime) -> bool:
        """Whether the whole ceiling is spent."""
        return self.percent(now) >= ALL

    def stopped(self, now: datetime) -> str | None:
        """Say why nothing of the product is given out; None when something may be."""
        if self.pause is not None:
            why = f": {self.pause.reason}" if self.pause.reason else ""
            return f"product {self.product_id} was paused by {self.pause.by}{why}"
        if not self.exhausted(now):
            return None
        return f"the budget of product {self.product_id} is spent: {self.told(now)}"

    def told(self, now: datetime) -> str:
        """How it stands, in words."""
        spent = f"${format_usd(self.spent(now).nanos)}"
        ceiling = self.terms.ceiling_nano_usd
        if ceiling is None:
            return f"{spent} is spent, and there is no ceiling"
        span = {Period.DAY: "today", Period.MONTH: "this month", Period.TOTAL: "in total"}
        ends = self.ends(now)
        until = f"; the next {self.terms.period} begins {ends:%Y-%m-%d} UTC" if ends else ""
        return f"{spent} of ${format_usd(ceiling)} {span[self.terms.period]}{until}"


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def booked(budget: Budget, nanos: int, *, estimated: bool, now: datetime) -> Budget:
    """The budget with an amount more spent on this day."""
    if not nanos:
        return budget
    today = _day(now).isoformat()
    days = {**budget.days, today: budget.days.get(today, Spend()).plus(nanos, estimated=estimated)}
    earlier = budget.earlier
    for day in sorted(days)[:-DAYS_KEPT]:
        old = days.pop(day)
        earlier = Spend(earlier.nanos + old.nanos, earlier.estimated + old.estimated)
    return replace(budget, days=days, earlier=earlier)


def warned(before: Budget, after: Budget, *, now: datetime) -> Budget:
    """The budget after a step, which notes when that has reached a further warning."""
    further = after.warning(now) > before.warning(now)
    return replace(after, warned_at=now) if further else after


def set_terms(budget: Budget, terms: Terms, *, now: datetime) -> Budget:
    """The budget under other terms.

    Raises Invalid for sums that nobody can mean, and for a ceiling below what is spent already.
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
    return warned(budget, after, now=now)


def paused(budget: Budget, by: str, reason: str, *, now: datetime) -> Budget:
    """The budget of a product that gets nothing until it is resumed; the first pause stands."""
    return budget if budget.pause else replace(budget, pause=Pause(by=by, reason=reason, at=now))


def resumed(budget: Budget, *, now: datetime) -> Budget:
    """The budget without the pause that somebody made.

    Raises BudgetPaused when everything is spent: that no resume can help.
    """
    after = replace(budget, pause=None)
    if stopped := after.stopped(now):
        raise BudgetPaused(f"{stopped}; raise the ceiling with `aq budget set`, or wait")
    return after


class Point(msgspec.Struct, frozen=True):
    """What was spent on a day, and the sum and the rest of its period after it."""

    day: str
    nanos: int
    sum_nanos: int
    left_nanos: int | None


def burndown(budget: Budget, *, now: datetime) -> tuple[Point, ...]:
    """The days of this period on which something was spent, in their order.

    What a budget in total has spent before the days that are kept is told as of `earlier`.
    """
    begins, ceiling = budget.begins(now), budget.terms.ceiling_nano_usd
    first = "" if begins is None else begins.date().isoformat()
    days = [(day, budget.days[day].nanos) for day in sorted(budget.days) if day >= first]
    if begins is None and budget.earlier.nanos:
        days.insert(0, ("earlier", budget.earlier.nanos))
    points: list[Point] = []
    total = 0
    for day, nanos in days:
        total += nanos
        left = None if ceiling is None else max(0, ceiling - total)
        points.append(Point(day, nanos, total, left))
    return tuple(points)
