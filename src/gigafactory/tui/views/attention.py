"""The attention view: decisions to make and problems."""

from gigafactory.system.formatting import format_short_age
from gigafactory.tui.views import ViewContext, empty_rows, heading_row
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, TextCell
from gigafactory.wire.admin import AttentionItemView

PROBLEM_KINDS = frozenset(
    {
        *("failed", "factory_offline", "factory_twin", "engine_unavailable"),
        *("unroutable", "dep_failed", "invalid"),
    }
)
"""Kinds of problems; all other kinds need a decision."""
KIND_LABELS = {
    "factory_offline": "offline",
    "factory_twin": "twin",
    "engine_unavailable": "engine",
    "budget_paused": "paused",
    "routing_tripped": "routing",
}
"""Kinds that are too long for their column."""


def is_problem(item: AttentionItemView) -> bool:
    """Return whether an item is a problem, not a decision to make."""
    return item.kind in PROBLEM_KINDS


def attention_rows(context: ViewContext) -> list[Row]:
    """Return all attention items: decisions first, then problems."""
    items = [
        each
        for each in context.snapshot.attention
        if context.matches(each.kind, each.title, each.subject, each.reason, each.product_id)
    ]
    rows: list[Row] = []
    for title, problems, colour in (("YOUR TURN", False, AMBER), ("PROBLEMS", True, RED)):
        section = [each for each in items if is_problem(each) is problems]
        if section:
            rows.append(heading_row(context, f"{title} {len(section)}", style=f"bold {colour}"))
            rows += [_row(context, each, colour) for each in section]
    return rows or empty_rows(context, context.hints.no_attention)


def _row(context: ViewContext, item: AttentionItemView, colour: str) -> Row:
    text = context.row_text(
        TextCell("✗" if is_problem(item) else "●", 1, colour),
        TextCell(KIND_LABELS.get(item.kind, item.kind.replace("_", " ")), 11, colour),
        TextCell(item.title, 44 if context.width >= WIDE else 25, "bold"),
        TextCell(item.reason, None, DIM),
        TextCell(format_short_age(item.since, context.now), 4, DIM, right=True),
    )
    return Row(text, f"{item.kind}/{item.subject}/{item.reason}", item)
