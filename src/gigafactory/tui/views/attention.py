"""What needs a person: whose turn it is, and what is wrong."""

from gigafactory.system.formatting import format_short_age
from gigafactory.tui.views import Scene, heading, nothing
from gigafactory.tui.views.jobs import WIDE
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell
from gigafactory.wire.admin import AttentionItemView

FAULTS = frozenset(
    {"failed", "factory_offline", "engine_unavailable", "unroutable", "dep_failed", "invalid"}
)
"""Something is wrong; all else is simply somebody's turn."""
KINDS = {
    "factory_offline": "offline",
    "engine_unavailable": "engine",
    "budget_paused": "paused",
    "routing_tripped": "routing",
    "invalid": "no job",
}
"""Shorter than the API's own words."""


def is_fault(matter: AttentionItemView) -> bool:
    """Whether something is wrong."""
    return matter.kind in FAULTS


def attention(scene: Scene) -> list[Row]:
    """All that waits for a person, what was asked of them before what is wrong."""
    matters = [
        each
        for each in scene.seen.matters
        if scene.has_words(each.kind, each.title, each.subject, each.reason, each.product_id)
    ]
    rows: list[Row] = []
    for title, wrong, colour in (("YOUR TURN", False, AMBER), ("PROBLEMS", True, RED)):
        these = [each for each in matters if is_fault(each) is wrong]
        if these:
            rows.append(heading(scene, f"{title} {len(these)}", style=f"bold {colour}"))
            rows += [_row(scene, each, colour) for each in these]
    return rows or nothing(scene, scene.hints.no_matters)


def _row(scene: Scene, matter: AttentionItemView, colour: str) -> Row:
    text = scene.line(
        Cell("✗" if is_fault(matter) else "●", 1, colour),
        Cell(KINDS.get(matter.kind, matter.kind.replace("_", " ")), 11, colour),
        Cell(matter.title, 44 if scene.width >= WIDE else 25, "bold"),
        Cell(matter.reason, None, DIM),
        Cell(format_short_age(matter.since, scene.now), 4, DIM, right=True),
    )
    return Row(text, f"{matter.kind}/{matter.subject}/{matter.reason}", matter)
