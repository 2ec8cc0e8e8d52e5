"""Tallies: stored run totals per group and period, updated incrementally as runs end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, timedelta
from typing import Any, ClassVar

import msgspec
from msgspec.structs import asdict, astuple, replace

from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    CellUpdate,
    Observation,
    cell_updates,
)
from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.insights.run_rollup import (
    NO_GROUP,
    UNJUDGED_RESULTS,
    GroupBy,
    RunRollup,
    group_of,
    wall_sec,
)
from gigafactory.domain.job.job import Job, Result, Stage, Step
from gigafactory.domain.job.run import Review, Run, Usage

ALL_PRODUCTS = "*"
"""The product part of the key of tallies over all products."""
TOTAL = "total"
ALL = "all"
"""The period of all time, and the group of all runs."""

TALLIED = (
    GroupBy.ENGINE,
    GroupBy.PROFILE,
    GroupBy.REPO,
    GroupBy.DAY,
    GroupBy.FACTORY,
    GroupBy.PRODUCT,
    GroupBy.COMPOSITE,
)
"""The groupings with tallies; the few runs of one job are added up on request."""


class RunCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Integer totals of runs; negative values are possible in a difference."""

    runs: int = 0
    jobs: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    cost_nano_usd: int = 0
    estimated: int = 0
    unmetered: int = 0
    wall_ms: int = 0
    first_passes: int = 0
    first_tries: int = 0
    approved: int = 0
    rejected: int = 0
    changes_requested: int = 0
    shipped: int = 0
    escaped: int = 0
    results: dict[str, int] = {}


_NUMBERS = tuple(name for name in RunCounts.__struct_fields__ if name != "results")
NO_COUNTS = RunCounts()


def add_counts(one: RunCounts, other: RunCounts, times: int = 1) -> RunCounts:
    """Return the sum of both, or the difference with `times=-1`."""
    pairs = zip(astuple(one)[:-1], astuple(other)[:-1], strict=True)
    added = dict(zip(_NUMBERS, [a + times * b for a, b in pairs], strict=True))
    results = dict(one.results)
    for name, count in other.results.items():
        results[name] = results.get(name, 0) + times * count
    return RunCounts(**added, results={name: n for name, n in sorted(results.items()) if n})


def sum_counts(many: Sequence[RunCounts]) -> RunCounts:
    """Return the sum of all; fast, since every ended run is added to many tallies."""
    results: Counter[str] = Counter()
    for one in many:
        results.update(one.results)
    sums = map(sum, zip(*(astuple(one)[:-1] for one in many), strict=True))
    counted = {name: count for name, count in sorted(results.items()) if count}
    return RunCounts(**dict(zip(_NUMBERS, sums, strict=True)), results=counted)


def sum_counts_by_key(added: Mapping[str, Sequence[RunCounts]]) -> dict[str, RunCounts]:
    """Return the sum per key; equal lists of counts are summed only once."""
    sums: dict[tuple[int, ...], RunCounts] = {}
    for many in added.values():
        same = tuple(map(id, many))
        if same not in sums:
            sums[same] = sum_counts(many)
    return {key: sums[tuple(map(id, many))] for key, many in added.items()}


def count_run(run: Run | None) -> RunCounts:
    """Return the counts of a run: empty until it has ended, and for ship steps."""
    if run is None or run.ended_at is None or run.step is not Step.RUN:
        return NO_COUNTS
    used = run.usage or Usage()
    return RunCounts(
        runs=1,
        tokens_in=used.tokens_in,
        tokens_cached=used.tokens_cached,
        tokens_cache_write=used.tokens_cache_write,
        tokens_out=used.tokens_out,
        tokens_reasoning=used.tokens_reasoning,
        cost_nano_usd=used.cost_nano_usd or 0,
        estimated=int(used.estimated),
        unmetered=int(used.cost_nano_usd is None),
        wall_ms=round(wall_sec(run) * 1000),
        approved=int(run.review is Review.APPROVED),
        rejected=int(run.review is Review.REJECTED),
        changes_requested=int(run.review is Review.CHANGES_REQUESTED),
        results={str(run.result): 1},
    )


class TallyIncrement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pending addition of one run update to the tallies; deleted once it is added."""

    kind: ClassVar[str] = "slip"
    expires_at: ClassVar[None] = None

    key: str
    product_id: str
    job_id: str
    number: int
    result: Result | None
    groups: dict[str, str]
    """The group of the run in each grouping."""
    counts: RunCounts
    updates: tuple[CellUpdate, ...] = msgspec.field(default=(), name="lessons")
    """Observations to add if the run is its job's first attempt."""
    routing: RoutingRecord | None = msgspec.field(default=None, name="routed")
    """The learned-routing record of the run's placement; None without one."""
    propensity: float = 1.0
    rev: int = 1

    @property
    def ends_run(self) -> bool:
        """Whether it records the end of the run, not a later update."""
        return self.counts.runs == 1


def increment_for_run(before: Run | None, after: Run) -> TallyIncrement | None:
    """Return what an update of a run adds to the tallies; None when nothing."""
    counts, earlier, updates = count_run(after), count_run(before), cell_updates(before, after)
    if counts == earlier and not updates:
        return None
    if earlier != NO_COUNTS:
        counts = add_counts(counts, earlier, -1)
    return TallyIncrement(
        key=f"{after.id}.{after.rev}",
        product_id=after.product_id,
        job_id=after.job_id,
        number=after.number,
        result=after.result,
        groups={by: group_of(after, by) for by in TALLIED},
        counts=counts,
        updates=updates,
        **_routed(after),
    )


def _routed(run: Run) -> dict[str, Any]:
    routing = run.decision.get("routing")
    if routing is None:
        return {}
    return {
        "routing": msgspec.convert(routing, RoutingRecord),
        "propensity": run.decision["propensity"],
    }


def increment_for_shipping(before: Job | None, after: Job) -> TallyIncrement | None:
    """Return what a job update adds: its shipping, or the first defect found after it; else None.

    Both count for the groups of its newest run and the day of shipping. Composites are not
    counted: their children are.
    """
    if after.stage is not Stage.SHIPPED or after.composite:
        return None
    shipped = before is None or before.stage is not Stage.SHIPPED
    escaped = before is not None and bool(after.defects) and not before.defects
    if not (shipped or escaped):
        return None
    groups = {
        GroupBy.ENGINE: after.engine,
        GroupBy.PROFILE: after.profile,
        GroupBy.REPO: after.ask.repo,
        GroupBy.DAY: after.stage_since.astimezone(UTC).date().isoformat(),
        GroupBy.FACTORY: after.checkpoint.factory_id if after.checkpoint else None,
        GroupBy.PRODUCT: after.product_id,
        GroupBy.COMPOSITE: after.parent_id,
    }
    return TallyIncrement(
        key=f"{after.id}.shipped.{after.rev}",
        product_id=after.product_id,
        job_id=after.id,
        number=after.runs,
        result=None,
        groups={by: group or NO_GROUP for by, group in groups.items()},
        counts=RunCounts(shipped=int(shipped), escaped=int(escaped)),
    )


class Tally(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The stored totals of one product (or all), grouping, period and group."""

    kind: ClassVar[str] = "tally"
    expires_at: ClassVar[None] = None

    key: str
    counts: RunCounts = NO_COUNTS
    cell: Cell | None = None
    """For a tally of observations: its cell."""
    observation: Observation = msgspec.field(default=NO_OBSERVATION, name="lesson")
    rev: int = 1

    @property
    def product_id(self) -> str:
        """The product; `*` for all products together."""
        return self.key.partition("/")[0]

    @property
    def group(self) -> str:
        """The group, which may contain slashes."""
        return self.key.split("/", 3)[3]


def key_prefix(space: str, by: str, period: str) -> str:
    """Return the key prefix of all groups of a product, grouping and period."""
    return f"{space}/{by}/{period}/"


def tally_additions(increment: TallyIncrement, earlier: Sequence[Run]) -> Mapping[str, RunCounts]:
    """Return what an increment adds by tally key; `earlier` are the earlier runs of its job.

    A job counts once per group, with its first run there, and has one first attempt.
    """
    before = _before(increment, earlier)
    first_try = RunCounts(first_tries=1, first_passes=int(increment.result is Result.OK))
    counts = (
        add_counts(increment.counts, first_try)
        if increment.ends_run and _first(increment, before)
        else increment.counts
    )
    with_job = add_counts(counts, RunCounts(jobs=1)) if increment.ends_run else counts
    added: dict[str, RunCounts] = {}
    for by, group in ((TOTAL, ALL), *increment.groups.items()):
        already_counted = any(by == TOTAL or group_of(run, GroupBy(by)) == group for run in before)
        for space in (increment.product_id, ALL_PRODUCTS):
            for period in _periods(increment.groups[GroupBy.DAY]):
                added[key_prefix(space, by, period) + group] = (
                    counts if already_counted else with_job
                )
    return added


def first_try_updates(increment: TallyIncrement, earlier: Sequence[Run]) -> tuple[CellUpdate, ...]:
    """Return the observations an increment adds: only first attempts count.

    Updates after the end of a later run are ignored, as its earlier runs are not loaded then.
    """
    may_be_first = increment.ends_run or increment.number == 1
    return (
        increment.updates if may_be_first and _first(increment, _before(increment, earlier)) else ()
    )


def _before(increment: TallyIncrement, earlier: Sequence[Run]) -> Sequence[Run]:
    return [run for run in earlier if run.number < increment.number and run.step is Step.RUN]


def _first(increment: TallyIncrement, before: Sequence[Run]) -> bool:
    """Return whether an increment belongs to the first judged run of its job."""
    judged = increment.result is not None and increment.result not in UNJUDGED_RESULTS
    return judged and all(run.result is None or run.result in UNJUDGED_RESULTS for run in before)


def _periods(day: str) -> tuple[str, str, str]:
    return ALL, f"m{day[:7]}", f"d{day}"


def covering_periods(since: date | None, today: date) -> list[str]:
    """Return the fewest periods that cover the time from a day until today."""
    if since is None:
        return [ALL]
    periods = []
    day = since
    while day <= today:
        following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        if day.day == 1:
            periods.append(f"m{day:%Y-%m}")
            day = following
        else:
            periods.append(f"d{day:%Y-%m-%d}")
            day += timedelta(days=1)
    return periods


def roll_up_tallies(tallies: Iterable[Tally]) -> dict[str, RunRollup]:
    """Return the rollups of tallies by group, sorted by name."""
    groups: dict[str, RunCounts] = {}
    for tally in tallies:
        groups[tally.group] = add_counts(groups.get(tally.group, NO_COUNTS), tally.counts)
    return {group: to_rollup(group, groups[group]) for group in sorted(groups)}


def to_rollup(group: str, counts: RunCounts) -> RunRollup:
    """Return counts as a rollup."""
    numbers = asdict(counts)
    wall_ms = numbers.pop("wall_ms")
    return RunRollup(group=group, wall_sec=wall_ms / 1000, **numbers)


def add_to_tally(tally: Tally | None, key: str, counts: RunCounts) -> Tally:
    """Return a tally with counts added; a new one if there is none."""
    if tally is None:
        return Tally(key=key, counts=counts)
    return replace(tally, counts=add_counts(tally.counts, counts), rev=tally.rev + 1)
