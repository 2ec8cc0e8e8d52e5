"""Group attention items of one cause: ten jobs that lack the same tool are one task."""

from collections.abc import Sequence
from typing import NamedTuple

from gigafactory.coordinator.insights.attention import AttentionItem

GROUP_MIN = 3
"""Smallest group; fewer items stay single."""
UNGROUPED_KINDS = frozenset(
    {"review", "ship", "phase", "halted", "budget", "budget_paused", "routing_tripped"}
)
"""Kinds that need a decision for each item."""


class AttentionGroup(NamedTuple):
    """One attention item, or several of the same kind, product and reason."""

    items: Sequence[AttentionItem]

    @property
    def first(self) -> AttentionItem:
        """The item that has waited longest."""
        return self.items[0]

    @property
    def is_group(self) -> bool:
        """Whether there are several items."""
        return len(self.items) > 1

    @property
    def actions(self) -> tuple[str, ...]:
        """Actions that are available for all items."""
        return tuple(a for a in self.first.actions if all(a in m.actions for m in self.items))

    @property
    def key(self) -> str:
        """Stable key of the card on the page."""
        first = self.first
        return f"{first.kind}/{first.reason}" if self.is_group else f"{first.kind}/{first.subject}"


def group_attention(items: Sequence[AttentionItem]) -> list[AttentionGroup]:
    """Group items of one cause at the position of the first; keep the order otherwise."""
    items_by_cause: dict[tuple[str, ...], list[AttentionItem]] = {}
    for item in items:
        items_by_cause.setdefault(_cause_key(item), []).append(item)
    groups: list[AttentionGroup] = []
    for item in items:
        group = items_by_cause[_cause_key(item)]
        if item.kind in UNGROUPED_KINDS or item.product_id is None or len(group) < GROUP_MIN:
            groups.append(AttentionGroup((item,)))
        elif item is group[0]:
            groups.append(AttentionGroup(sorted(group, key=lambda each: each.since)))
    return groups


def _cause_key(item: AttentionItem) -> tuple[str, ...]:
    return item.kind, item.product_id or "", item.reason
