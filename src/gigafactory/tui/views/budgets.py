"""The budgets view: spending of each product against its limit."""

from decimal import Decimal

from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.system.formatting import format_money
from gigafactory.tui.views import ViewContext, empty_rows
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, TextCell
from gigafactory.wire.budgets import BudgetView

FULL_PERCENT, WARNING_PERCENT = 100, 80


def budget_rows(context: ViewContext) -> list[Row]:
    """Return a row with a bar for each product."""
    rows = [
        each for each in context.snapshot.budgets if context.matches(each.product_id, each.says)
    ]
    return [_row(context, each) for each in rows] or empty_rows(context, context.hints.no_budgets)


def _row(context: ViewContext, budget: BudgetView) -> Row:
    wide = context.width >= WIDE
    room = 30 if wide else 14
    share = f"{budget.percent} %" if budget.ceiling_usd is not None else ""
    colour = (
        RED
        if budget.percent >= FULL_PERCENT
        else AMBER
        if budget.percent >= WARNING_PERCENT
        else "green"
    )
    text = context.row_text(
        TextCell("‖" if budget.paused else "●", 1, AMBER if budget.paused else DIM),
        TextCell(budget.product_id, 24 if wide else 14, "bold"),
        TextCell(draw_bar(budget, room), room, colour),
        TextCell(share, 5, colour, right=True),
        TextCell(_format_spending(budget), 24 if wide else 18),
        TextCell(budget.says, None, AMBER if budget.paused else DIM),
    )
    return Row(text, f"budget/{budget.product_id}", budget)


def draw_bar(budget: BudgetView, width: int) -> str:
    """Draw the spent part of the limit."""
    if budget.ceiling_usd is None:
        return "no limit"
    full = min(width, round(width * budget.percent / FULL_PERCENT))
    return "█" * full + "░" * (width - full)


def _format_spending(budget: BudgetView) -> str:
    of = f" of {format_dollars(budget.ceiling_usd)}" if budget.ceiling_usd is not None else ""
    return f"{format_dollars(budget.spent_usd)}{of}"


def format_dollars(amount: str) -> str:
    """Format a sum of dollars, rounded to a hundredth of a cent."""
    return format_money(round(Decimal(amount) * NANOS_PER_USD), rounded=True)
