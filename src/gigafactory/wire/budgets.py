"""Records of budgets."""

from typing import Annotated

from msgspec import Meta

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import AtCeiling, BudgetTerms, Period
from gigafactory.wire.fields import Money, RequestDoc, ResponseView, Sentence, Timestamp

Dollars = Annotated[float, Meta(ge=0, le=1e9)] | Annotated[str, Meta(max_length=40)]


class BudgetDoc(RequestDoc, frozen=True, kw_only=True):
    """What a product may spend; what is not given has its default."""

    ceiling_usd: Dollars | None
    """The most that may be spent in a period; null: nothing is limited."""
    period: Period = Period.MONTH
    """`day`, `month` (both of UTC) or `total`."""
    reserve_usd: Dollars = "1"
    """Set aside for a run whose job names no budget, and that has too few like it."""
    at_ceiling: AtCeiling = AtCeiling.STOP
    """Whether running work is stopped when all is spent, or may finish."""

    def read(self) -> BudgetTerms:
        """The record of it.

        Raises Invalid.
        """
        return BudgetTerms(
            ceiling_nano_usd=None
            if self.ceiling_usd is None
            else _nanos("ceilingUsd", self.ceiling_usd),
            period=self.period,
            reserve_nano_usd=_nanos("reserveUsd", self.reserve_usd),
            at_ceiling=self.at_ceiling,
        )


def _nanos(field: str, dollars: float | str) -> int:
    try:
        return parse_usd(str(dollars))
    except ValueError as expected:
        fault = Fault(field, f"found {dollars!r}; expected {expected}")
        raise Invalid("the budget", [fault]) from None


class BudgetView(ResponseView, frozen=True, kw_only=True):
    """A product's budget, as it stands now."""

    product_id: str
    ceiling_usd: Money | None
    period: Period
    reserve_usd: Money
    at_ceiling: AtCeiling
    spent_usd: Money
    """In this period."""
    estimated_usd: Money
    """How much of that no engine has metered."""
    reserved_usd: Money
    """Set aside for running work."""
    left_usd: Money | None
    """What may still be set aside."""
    percent: int
    """How much of the ceiling is spent; 0 without one."""
    warning: int
    """The highest warning that is reached: 0, 50, 80, 95 or 100."""
    period_begins: Timestamp | None
    period_ends: Timestamp | None
    paused: bool
    paused_by: str | None
    """Who paused it; null while everything goes on, or when it is simply spent."""
    paused_at: Timestamp | None
    says: str
    """How it stands, in words."""


class PauseDoc(RequestDoc, frozen=True, kw_only=True):
    """Why a product is paused."""

    reason: Sentence = ""


class SpentDay(ResponseView, frozen=True, kw_only=True):
    """What was spent on one day in UTC, and how the period stood at its end."""

    day: str
    spent_usd: Money
    sum_usd: Money
    left_usd: Money | None


class BurndownView(ResponseView, frozen=True, kw_only=True):
    """The days of this period on which anything was spent, in their order."""

    product_id: str
    period: Period
    ceiling_usd: Money | None
    days: tuple[SpentDay, ...]
