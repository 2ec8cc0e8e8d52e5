"""Matters of one cause, put together: ten jobs that miss the same tool are one thing to do."""

from collections.abc import Sequence
from typing import NamedTuple

from gigafactory.coordinator.insights.attention import AttentionItem

MANY = 3
"""Fewer are looked at one by one."""
APART = frozenset(
    {"review", "ship", "phase", "halted", "budget", "budget_paused", "routing_tripped"}
)
"""Kinds in which each needs a decision of its own, whatever it has in common with others."""


class Cause(NamedTuple):
    """One matter, or many of the same kind, product and reason."""

    matters: Sequence[AttentionItem]

    @property
    def first(self) -> AttentionItem:
        """What all of them have in common stands in this one; it has waited longest."""
        return self.matters[0]

    @property
    def many(self) -> bool:
        """Whether it is shown as a group."""
        return len(self.matters) > 1

    @property
    def actions(self) -> tuple[str, ...]:
        """What can be done to every one of them."""
        return tuple(a for a in self.first.actions if all(a in m.actions for m in self.matters))

    @property
    def key(self) -> str:
        """By what the page knows it again."""
        first = self.first
        return f"{first.kind}/{first.reason}" if self.many else f"{first.kind}/{first.subject}"


def causes(matters: Sequence[AttentionItem]) -> list[Cause]:
    """The matters in their order, with those of one cause together where the first of them is."""
    alike: dict[tuple[str, ...], list[AttentionItem]] = {}
    for matter in matters:
        alike.setdefault(_cause(matter), []).append(matter)
    found: list[Cause] = []
    for matter in matters:
        group = alike[_cause(matter)]
        if matter.kind in APART or matter.product_id is None or len(group) < MANY:
            found.append(Cause((matter,)))
        elif matter is group[0]:
            found.append(Cause(sorted(group, key=lambda each: each.since)))
    return found


def _cause(matter: AttentionItem) -> tuple[str, ...]:
    return matter.kind, matter.product_id or "", matter.reason
