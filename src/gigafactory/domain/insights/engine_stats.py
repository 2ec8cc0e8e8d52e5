"""Pairs: how well engines do with each profile and in each repo, tallied month by month."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from gigafactory.domain.insights.run_rollup import NONE, By, Rollup
from gigafactory.domain.insights.tally import (
    ALL,
    EVERYTHING,
    TOTAL,
    Counts,
    Slip,
    Tally,
    page,
    rolled_up,
)

PAIRED = (By.PROFILE, By.REPO)
"""What engines are told apart by; more would make a row of every run."""
MONTHS = 3
"""So far back reaches what advice rests on: engines change, and old tries say little of them."""
BESIDE = "\t"
"""Between the group and its engine; no name of either has one."""


def pair_name(by: By) -> str:
    """What the tallies of pairs with an engine are by."""
    return f"{by}+{By.ENGINE}"


def paired(slip: Slip, added: Mapping[str, Counts]) -> Mapping[str, Counts]:
    """What a slip adds to the tallies of pairs, from what it adds to all: first tries alone."""
    tried = added[page(slip.product_id, TOTAL, ALL) + ALL]
    if not tried.first_tries:
        return {}
    counts = Counts(first_tries=tried.first_tries, first_passes=tried.first_passes)
    month = f"m{slip.groups[By.DAY][:7]}"
    engine = slip.groups[By.ENGINE]
    return {
        page(space, pair_name(by), month) + slip.groups[by] + BESIDE + engine: counts
        for by in PAIRED
        for space in (slip.product_id, EVERYTHING)
    }


def months(today: date) -> list[str]:
    """The months that advice rests on, the newest first."""
    told = []
    for _ in range(MONTHS):
        told.append(f"m{today:%Y-%m}")
        today = today.replace(day=1) - timedelta(days=1)
    return told


def apart(tallies: Iterable[Tally]) -> dict[str, list[Rollup]]:
    """The tallies of pairs by group: what each engine did there. What has none is no group."""
    groups: dict[str, list[Rollup]] = {}
    for name, rollup in rolled_up(tallies).items():
        group, _, engine = name.rpartition(BESIDE)
        if group == NONE:
            continue
        mine = Rollup(
            group=engine, first_tries=rollup.first_tries, first_passes=rollup.first_passes
        )
        groups.setdefault(group, []).append(mine)
    return groups
