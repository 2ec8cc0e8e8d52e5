"""Pairs: how well engines do with each profile and in each repo, tallied month by month."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from gigafactory.domain.insights.run_rollup import NO_GROUP, GroupBy, RunRollup
from gigafactory.domain.insights.tally import (
    ALL,
    ALL_PRODUCTS,
    TOTAL,
    RunCounts,
    Tally,
    TallyIncrement,
    key_prefix,
    roll_up_tallies,
)

PAIRED = (GroupBy.PROFILE, GroupBy.REPO)
"""What engines are told apart by; more would make a row of every run."""
MONTHS = 3
"""So far back reaches what advice rests on: engines change, and old tries say little of them."""
BESIDE = "\t"
"""Between the group and its engine; no name of either has one."""


def pair_name(by: GroupBy) -> str:
    """What the tallies of pairs with an engine are by."""
    return f"{by}+{GroupBy.ENGINE}"


def paired(slip: TallyIncrement, added: Mapping[str, RunCounts]) -> Mapping[str, RunCounts]:
    """What a slip adds to the tallies of pairs, from what it adds to all: first tries alone."""
    tried = added[key_prefix(slip.product_id, TOTAL, ALL) + ALL]
    if not tried.first_tries:
        return {}
    counts = RunCounts(first_tries=tried.first_tries, first_passes=tried.first_passes)
    month = f"m{slip.groups[GroupBy.DAY][:7]}"
    engine = slip.groups[GroupBy.ENGINE]
    return {
        key_prefix(space, pair_name(by), month) + slip.groups[by] + BESIDE + engine: counts
        for by in PAIRED
        for space in (slip.product_id, ALL_PRODUCTS)
    }


def months(today: date) -> list[str]:
    """The months that advice rests on, the newest first."""
    told = []
    for _ in range(MONTHS):
        told.append(f"m{today:%Y-%m}")
        today = today.replace(day=1) - timedelta(days=1)
    return told


def apart(tallies: Iterable[Tally]) -> dict[str, list[RunRollup]]:
    """The tallies of pairs by group: what each engine did there. What has none is no group."""
    groups: dict[str, list[RunRollup]] = {}
    for name, rollup in roll_up_tallies(tallies).items():
        group, _, engine = name.rpartition(BESIDE)
        if group == NO_GROUP:
            continue
        mine = RunRollup(
            group=engine, first_tries=rollup.first_tries, first_passes=rollup.first_passes
        )
        groups.setdefault(group, []).append(mine)
    return groups
