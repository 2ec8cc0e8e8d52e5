"""Matters of one cause are one card; what needs a decision each stays apart."""

from datetime import timedelta

from gigafactory.coordinator.insights.attention import AttentionItem
from gigafactory.web.presenters.grouped_attention import GROUP_MIN, group_attention
from tests.support.builders import NOON


def matter(number: int, kind: str = "unroutable", **fields: object) -> AttentionItem:
    usual: dict[str, object] = {"reason": "no factory has has:gpu", "product_id": "notes"}
    said = {**usual, "since": NOON - timedelta(minutes=number), **fields}
    return AttentionItem(kind=kind, subject=f"j{number}", title=f"Job {number}", **said)  # type: ignore[arg-type]


def test_many_of_one_cause_are_one_group_with_the_oldest_first() -> None:
    (found,) = group_attention([matter(n) for n in range(10)])
    assert found.is_group
    assert [each.subject for each in found.items] == [f"j{n}" for n in range(9, -1, -1)]
    assert found.first.subject == "j9"


def test_few_are_looked_at_one_by_one() -> None:
    found = group_attention([matter(n) for n in range(GROUP_MIN - 1)])
    assert [cause.is_group for cause in found] == [False] * (GROUP_MIN - 1)
    assert len({cause.key for cause in found}) == GROUP_MIN - 1


def test_another_reason_product_or_kind_is_another_cause() -> None:
    same = [matter(n) for n in range(GROUP_MIN)]
    other = [
        matter(10, reason="no factory has has:figma"),
        matter(11, product_id="shop"),
        matter(12, "late"),
    ]
    found = group_attention([other[0], *same, *other[1:]])
    assert [len(cause.items) for cause in found] == [1, GROUP_MIN, 1, 1]


def test_what_needs_a_decision_each_is_never_put_together() -> None:
    for kind in ("review", "ship", "phase"):
        assert len(group_attention([matter(n, kind) for n in range(GROUP_MIN)])) == GROUP_MIN
    machines = [matter(n, "factory_offline", product_id=None) for n in range(GROUP_MIN)]
    assert len(group_attention(machines)) == GROUP_MIN


def test_a_group_can_do_what_every_one_of_it_can() -> None:
    both = [matter(n, "failed", actions=("requeue", "cancel")) for n in range(GROUP_MIN)]
    (found,) = group_attention([*both, matter(9, "failed", actions=("requeue",))])
    assert found.actions == ("requeue",)
