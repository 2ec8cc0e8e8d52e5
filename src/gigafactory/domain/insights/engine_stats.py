"""Monthly tallies of first-attempt results by engine, per profile and per repo."""

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
"""The groupings that are tallied by engine; more would make nearly one row per run."""
MONTHS = 3
"""Months that advice is based on; engines change, so older attempts are ignored."""
BESIDE = "\t"
"""Separates group and engine in a tally key; no name contains a tab."""


def pair_name(by: GroupBy) -> str:
    """Return the `by` part of the tally keys of a grouping with engines."""
    return f"{by}+{GroupBy.ENGINE}"


def paired(increment: TallyIncrement, added: Mapping[str, RunCounts]) -> Mapping[str, RunCounts]:
    """Return what an increment adds to the tallies by engine: first attempts only."""
    tried = added[key_prefix(increment.product_id, TOTAL, ALL) + ALL]
    if not tried.first_tries:
        return {}
    counts = RunCounts(first_tries=tried.first_tries, first_passes=tried.first_passes)
    month = f"m{increment.groups[GroupBy.DAY][:7]}"
    engine = increment.groups[GroupBy.ENGINE]
    return {
        key_prefix(space, pair_name(by), month) + increment.groups[by] + BESIDE + engine: counts
        for by in PAIRED
        for space in (increment.product_id, ALL_PRODUCTS)
    }


def months(today: date) -> list[str]:
    """Return the months that advice is based on, newest first."""
    found = []
    for _ in range(MONTHS):
        found.append(f"m{today:%Y-%m}")
        today = today.replace(day=1) - timedelta(days=1)
    return found


def rollups_by_group(tallies: Iterable[Tally]) -> dict[str, list[RunRollup]]:
    """Return the rollups of engines by group; work without a group is left out."""
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
