"""Records of budgets."""

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import AtCeiling, BudgetTerms, Period
from gigafactory.wire.fields import Dollars, Money, RequestDoc, ResponseView, Sentence, Timestamp


class BudgetDoc(RequestDoc, frozen=True, kw_only=True):
    """Budget of a product; omitted settings get their defaults."""

    ceiling_usd: Dollars | None
    """Spending limit per period; null: unlimited."""
    period: Period = Period.MONTH
    """`day`, `month` (both of UTC) or `total`."""
    reserve_usd: Dollars = "1"
    """Reserved for a run without its own budget and without enough similar runs."""
    at_ceiling: AtCeiling = AtCeiling.STOP
    """Whether running work is stopped when the budget is spent, or may finish."""

    def to_domain(self) -> BudgetTerms:
        """Return the domain record.

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
    """The current state of a product's budget."""

    product_id: str
    ceiling_usd: Money | None
    period: Period
    reserve_usd: Money
    at_ceiling: AtCeiling
    spent_usd: Money
    """Spent in this period."""
    estimated_usd: Money
    """Estimated part of it, not metered by an engine."""
    reserved_usd: Money
    """Reserved for running work."""
    left_usd: Money | None
    """The amount that can still be reserved."""
    percent: int
    """Spent share of the ceiling; 0 without one."""
    warning: int
    """Highest warning level reached: 0, 50, 80, 95 or 100."""
    period_begins: Timestamp | None
    period_ends: Timestamp | None
    paused: bool
    paused_by: str | None
    """The user who paused it; null if it is not paused, or only spent."""
    paused_at: Timestamp | None
    says: str
    """Summary sentence."""


class PauseDoc(RequestDoc, frozen=True, kw_only=True):
    """Reason of a pause."""

    reason: Sentence = ""


class SpentDay(ResponseView, frozen=True, kw_only=True):
    """Spending of one UTC day, and the totals at its end."""

    day: str
    spent_usd: Money
    sum_usd: Money
    left_usd: Money | None


class BurndownView(ResponseView, frozen=True, kw_only=True):
    """Days of this period with spending, in order."""

    product_id: str
    period: Period
    ceiling_usd: Money | None
    days: tuple[SpentDay, ...]
