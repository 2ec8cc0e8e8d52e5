"""Tallies: rollups of runs that are kept up as runs end, so that nobody adds up a million."""

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
"""The space of all products together."""
TOTAL = "total"
ALL = "all"
"""The period from the beginning on, and the group of all."""

TALLIED = (
    GroupBy.ENGINE,
    GroupBy.PROFILE,
    GroupBy.REPO,
    GroupBy.DAY,
    GroupBy.FACTORY,
    GroupBy.PRODUCT,
    GroupBy.COMPOSITE,
)
"""What tallies are kept by; the runs of one job are few, and are added up when asked for."""


class RunCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Whole numbers that add up exactly; as a difference they may be below zero."""

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
    """Both together; with -1 what is left of the first without the other."""
    pairs = zip(astuple(one)[:-1], astuple(other)[:-1], strict=True)
    added = dict(zip(_NUMBERS, [a + times * b for a, b in pairs], strict=True))
    results = dict(one.results)
    for name, count in other.results.items():
        results[name] = results.get(name, 0) + times * count
    return RunCounts(**added, results={name: n for name, n in sorted(results.items()) if n})


def sum_counts(many: Sequence[RunCounts]) -> RunCounts:
    """All of them; quick, since every run that ends is added to many tallies."""
    results: Counter[str] = Counter()
    for one in many:
        results.update(one.results)
    sums = map(sum, zip(*(astuple(one)[:-1] for one in many), strict=True))
    kept = {name: count for name, count in sorted(results.items()) if count}
    return RunCounts(**dict(zip(_NUMBERS, sums, strict=True)), results=kept)


def sum_counts_by_key(added: Mapping[str, Sequence[RunCounts]]) -> dict[str, RunCounts]:
    """The sum of each; most have the very same counts as others, and are added up once."""
    sums: dict[tuple[int, ...], RunCounts] = {}
    for many in added.values():
        same = tuple(map(id, many))
        if same not in sums:
            sums[same] = sum_counts(many)
    return {key: sums[tuple(map(id, many))] for key, many in added.items()}


def count_run(run: Run | None) -> RunCounts:
    """What a run counts for by itself: nothing until it has ended, and never for shipping."""
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
    """What one step of a run adds to the tallies: written with the step, gone once it is added."""

    kind: ClassVar[str] = "slip"
    expires_at: ClassVar[None] = None

    key: str
    product_id: str
    job_id: str
    number: int
    result: Result | None
    groups: dict[str, str]
    """The group of the run by each of what tallies are kept by."""
    counts: RunCounts
    updates: tuple[CellUpdate, ...] = msgspec.field(default=(), name="lessons")
    """What it teaches of engines and factories, should the run be its job's first try."""
    routing: RoutingRecord | None = msgspec.field(default=None, name="routed")
    """How what was learned had a say in where the run went; None where it had none."""
    propensity: float = 1.0
    rev: int = 1

    @property
    def ends_run(self) -> bool:
        """Whether it tells of the run's end, and not of what was learned afterwards."""
        return self.counts.runs == 1


def increment_for_run(before: Run | None, after: Run) -> TallyIncrement | None:
    """What a step of a run adds; None when it adds nothing."""
    counts, known, taught = count_run(after), count_run(before), cell_updates(before, after)
    if counts == known and not taught:
        return None
    if known != NO_COUNTS:
        counts = add_counts(counts, known, -1)
    return TallyIncrement(
        key=f"{after.id}.{after.rev}",
        product_id=after.product_id,
        job_id=after.job_id,
        number=after.number,
        result=after.result,
        groups={by: group_of(after, by) for by in TALLIED},
        counts=counts,
        updates=taught,
        **_routed(after),
    )


def _routed(run: Run) -> dict[str, Any]:
    told = run.decision.get("routing")
    if told is None:
        return {}
    return {
        "routing": msgspec.convert(told, RoutingRecord),
        "propensity": run.decision["propensity"],
    }


def increment_for_shipping(before: Job | None, after: Job) -> TallyIncrement | None:
    """What a step of a job adds: one that was shipped, where its newest run was; else None.

    Or the first defect that is found of it then, on the day of its shipping too. A composite is
    the sum of its children, and was counted with them.
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
    """One rollup: of a product or of all, by something, over a period, of one group."""

    kind: ClassVar[str] = "tally"
    expires_at: ClassVar[None] = None

    key: str
    counts: RunCounts = NO_COUNTS
    cell: Cell | None = None
    """Of a crossed one: what its tries have in common, and what they taught."""
    observation: Observation = msgspec.field(default=NO_OBSERVATION, name="lesson")
    rev: int = 1

    @property
    def product_id(self) -> str:
        """The product that it is of; `*` for all together."""
        return self.key.partition("/")[0]

    @property
    def group(self) -> str:
        """The group, which may have slashes of its own."""
        return self.key.split("/", 3)[3]


def key_prefix(space: str, by: str, period: str) -> str:
    """How the keys of all groups over a period begin."""
    return f"{space}/{by}/{period}/"


def tally_additions(slip: TallyIncrement, earlier: Sequence[Run]) -> Mapping[str, RunCounts]:
    """What a slip adds to which tallies; `earlier` are the runs of its job before it.

    A job counts once in each group, where its first run was, and has one first try.
    """
    before = _before(slip, earlier)
    tried = RunCounts(first_tries=1, first_passes=int(slip.result is Result.OK))
    counts = (
        add_counts(slip.counts, tried) if slip.ends_run and _first(slip, before) else slip.counts
    )
    with_job = add_counts(counts, RunCounts(jobs=1)) if slip.ends_run else counts
    added: dict[str, RunCounts] = {}
    for by, group in ((TOTAL, ALL), *slip.groups.items()):
        met = any(by == TOTAL or group_of(run, GroupBy(by)) == group for run in before)
        for space in (slip.product_id, ALL_PRODUCTS):
            for period in _periods(slip.groups[GroupBy.DAY]):
                added[key_prefix(space, by, period) + group] = counts if met else with_job
    return added


def first_try_updates(slip: TallyIncrement, earlier: Sequence[Run]) -> tuple[CellUpdate, ...]:
    """What a slip adds to the lessons: only the first try of a job teaches.

    What is learned of a later run after its end is left out: nobody looks for the earlier ones.
    """
    known = slip.ends_run or slip.number == 1
    return slip.updates if known and _first(slip, _before(slip, earlier)) else ()


def _before(slip: TallyIncrement, earlier: Sequence[Run]) -> Sequence[Run]:
    return [run for run in earlier if run.number < slip.number and run.step is Step.RUN]


def _first(slip: TallyIncrement, before: Sequence[Run]) -> bool:
    """Whether a slip is of the first run of its job that says how good the work was."""
    judged = slip.result is not None and slip.result not in UNJUDGED_RESULTS
    return judged and all(run.result is None or run.result in UNJUDGED_RESULTS for run in before)


def _periods(day: str) -> tuple[str, str, str]:
    return ALL, f"m{day[:7]}", f"d{day}"


def covering_periods(since: date | None, today: date) -> list[str]:
    """The fewest periods that together are the time from a day until now."""
    if since is None:
        return [ALL]
    told = []
    day = since
    while day <= today:
        following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        if day.day == 1:
            told.append(f"m{day:%Y-%m}")
            day = following
        else:
            told.append(f"d{day:%Y-%m-%d}")
            day += timedelta(days=1)
    return told


def roll_up_tallies(tallies: Iterable[Tally]) -> dict[str, RunRollup]:
    """The rollups of tallies by group, in the order of their names."""
    groups: dict[str, RunCounts] = {}
    for tally in tallies:
        groups[tally.group] = add_counts(groups.get(tally.group, NO_COUNTS), tally.counts)
    return {group: to_rollup(group, groups[group]) for group in sorted(groups)}


def to_rollup(group: str, counts: RunCounts) -> RunRollup:
    """Counts as they are shown."""
    numbers = asdict(counts)
    wall_ms = numbers.pop("wall_ms")
    return RunRollup(group=group, wall_sec=wall_ms / 1000, **numbers)


def add_to_tally(tally: Tally | None, key: str, counts: RunCounts) -> Tally:
    """A tally with more counted."""
    if tally is None:
        return Tally(key=key, counts=counts)
    return replace(tally, counts=add_counts(tally.counts, counts), rev=tally.rev + 1)
