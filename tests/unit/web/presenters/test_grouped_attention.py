"""Attention items of one cause share a group."""

from datetime import timedelta

from gigafactory.coordinator.insights.attention import AttentionItem
from gigafactory.web.presenters.grouped_attention import GROUP_MIN, group_attention
from tests.support.builders import NOON


def item(number: int, kind: str = "unroutable", **fields: object) -> AttentionItem:
    usual: dict[str, object] = {"reason": "no factory has has:gpu", "product_id": "notes"}
    values = {**usual, "since": NOON - timedelta(minutes=number), **fields}
    return AttentionItem(kind=kind, subject=f"j{number}", title=f"Job {number}", **values)  # type: ignore[arg-type]


def test_items_of_one_cause_are_grouped_oldest_first() -> None:
    (found,) = group_attention([item(n) for n in range(10)])
    assert found.is_group
    assert [each.subject for each in found.items] == [f"j{n}" for n in range(9, -1, -1)]
    assert found.first.subject == "j9"


def test_few_items_stay_single() -> None:
    found = group_attention([item(n) for n in range(GROUP_MIN - 1)])
    assert [group.is_group for group in found] == [False] * (GROUP_MIN - 1)
    assert len({group.key for group in found}) == GROUP_MIN - 1


def test_items_of_another_reason_product_or_kind_are_grouped_apart() -> None:
    same = [item(n) for n in range(GROUP_MIN)]
    other = [
        item(10, reason="no factory has has:figma"),
        item(11, product_id="shop"),
        item(12, "late"),
    ]
    found = group_attention([other[0], *same, *other[1:]])
    assert [len(group.items) for group in found] == [1, GROUP_MIN, 1, 1]


def test_items_that_need_single_decisions_are_not_grouped() -> None:
    for kind in ("review", "ship", "phase"):
        assert len(group_attention([item(n, kind) for n in range(GROUP_MIN)])) == GROUP_MIN
    machines = [item(n, "factory_offline", product_id=None) for n in range(GROUP_MIN)]
    assert len(group_attention(machines)) == GROUP_MIN


def test_group_actions_are_those_of_all_items() -> None:
    both = [item(n, "failed", actions=("requeue", "cancel")) for n in range(GROUP_MIN)]
    (found,) = group_attention([*both, item(9, "failed", actions=("requeue",))])
    assert found.actions == ("requeue",)
