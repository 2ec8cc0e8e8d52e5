"""The budgets: what each product has spent of what it may."""

from decimal import Decimal

from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.system.formatting import format_money
from gigafactory.tui.views import Scene, nothing
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell
from gigafactory.wire.budgets import BudgetView

FULL, TIGHT = 100, 80


def budgets(scene: Scene) -> list[Row]:
    """Every product, with a bar."""
    found = [each for each in scene.seen.budgets if scene.has_words(each.product_id, each.says)]
    return [_row(scene, each) for each in found] or nothing(scene, scene.hints.no_budgets)


def _row(scene: Scene, budget: BudgetView) -> Row:
    wide = scene.width >= WIDE
    room = 30 if wide else 14
    share = f"{budget.percent} %" if budget.ceiling_usd is not None else ""
    colour = RED if budget.percent >= FULL else AMBER if budget.percent >= TIGHT else "green"
    text = scene.line(
        Cell("‖" if budget.paused else "●", 1, AMBER if budget.paused else DIM),
        Cell(budget.product_id, 24 if wide else 14, "bold"),
        Cell(bar(budget, room), room, colour),
        Cell(share, 5, colour, right=True),
        Cell(_sum(budget), 24 if wide else 18),
        Cell(budget.says, None, AMBER if budget.paused else DIM),
    )
    return Row(text, f"budget/{budget.product_id}", budget)


def bar(budget: BudgetView, width: int) -> str:
    """How much of the ceiling is spent, drawn."""
    if budget.ceiling_usd is None:
        return "no ceiling"
    full = min(width, round(width * budget.percent / FULL))
    return "█" * full + "░" * (width - full)


def _sum(budget: BudgetView) -> str:
    of = f" of {dollars(budget.ceiling_usd)}" if budget.ceiling_usd is not None else ""
    return f"{dollars(budget.spent_usd)}{of}"


def dollars(amount: str) -> str:
    """Format a sum to a hundredth of a cent."""
    return format_money(round(Decimal(amount) * NANOS_PER_USD), rounded=True)
