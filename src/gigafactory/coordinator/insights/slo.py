"""Service level objectives, measured from this coordinator's counters and the tallies."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.counters import Counters, Histogram, Labels
from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.insights.insights import InsightQueries
from gigafactory.domain.elapsed import format_ago
from gigafactory.domain.insights.run_rollup import Insights, RunRollup
from gigafactory.domain.insights.slo import (
    ASSIGN_WITHIN_S,
    RECLAIM_WITHIN_S,
    UNFAIR_FROM_S,
    UNFAIR_TIMES,
    WAIT_WITHIN_S,
    Objective,
    SloMeasurement,
)
from gigafactory.domain.job.job import Stage
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller

TALLIED_DAYS = 30


class WaitHistogram(msgspec.Struct, frozen=True):
    """Histogram of the time that jobs waited for a factory."""

    bounds: Sequence[float]
    counts: Sequence[int]
    """Jobs up to each bound; the last entry counts longer waits."""
    seconds: float
    """Sum of all waits."""

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return sum(self.counts)


class Objectives:
    """Measures the service level objectives."""

    def __init__(self, clock: Clock, counters: Counters, insights: InsightQueries) -> None:
        self._clock = clock
        self._counters = counters
        self._insights = insights
        self._since = clock.now()

    @property
    def window(self) -> str:
        """Describe the time window of this coordinator's counters."""
        uptime = self._clock.now() - self._since
        return f"since this coordinator started, {format_ago(uptime)}"

    async def measure(self, caller: Caller) -> Sequence[SloMeasurement]:
        """Measure every objective for the caller's chosen or visible products."""
        caller.require("read", OWN_PRODUCTS)
        counters, here = self._counters, self.window
        since = self._clock.now().date() - timedelta(days=TALLIED_DAYS - 1)
        totals = (await self._insights.show(caller, (), since=since)).total
        ended = _count_ended(counters.jobs_ended, caller)
        dead = _count_ended(counters.jobs_ended, caller, Stage.DEAD_LETTER)
        breaches = sum(
            n for product, n in counters.budget_breaches.items() if _covers(caller, product)
        )
        return [
            _measure_latency(
                Objective.ASSIGNMENT, counters.assign_s, ASSIGN_WITHIN_S, caller, here
            ),
            _measure_latency(Objective.WAIT, counters.wait_s, WAIT_WITHIN_S, caller, here),
            SloMeasurement(
                Objective.FIRST_PASS,
                totals.first_tries - totals.first_passes,
                totals.first_tries,
                f"of the last {TALLIED_DAYS} days",
            ),
            SloMeasurement(
                Objective.ESCAPED,
                min(totals.escaped, totals.shipped),
                totals.shipped,
                f"of the last {TALLIED_DAYS} days",
            ),
            SloMeasurement(Objective.BUDGET, min(breaches, ended), ended, here),
            SloMeasurement(Objective.DEAD_LETTERS, dead, ended, here),
            _measure_latency(Objective.RECLAIM, counters.reclaim_s, RECLAIM_WITHIN_S, None, here),
            # Needs a time series, which only a metrics collector has.
            SloMeasurement(Objective.UTILIZATION, 0, 0, "only available in Prometheus"),
            *self._measure_invariants(caller, here),
        ]

    def _measure_invariants(self, caller: Caller, window: str) -> Sequence[SloMeasurement]:
        """Measure objectives that allow no violation at all."""
        counters = self._counters
        means = [
            seconds / jobs
            for labels, (counts, seconds) in counters.wait_s.series().items()
            if _covers(caller, labels[0]) and (jobs := sum(counts))
        ]
        unfair = [mean > UNFAIR_FROM_S and mean >= UNFAIR_TIMES * min(means) for mean in means]
        # A single product cannot be treated unfairly.
        of = len(means) if len(means) > 1 else 0
        granted = sum(sum(counts) for counts, _ in counters.wait_s.series().values())
        shipped = sum(n for (_, ended), n in counters.jobs_ended.items() if ended == Stage.SHIPPED)
        twice, both = counters.violations["double_ship"], counters.violations["double_lease"]
        return [
            SloMeasurement(Objective.FAIR_WAITS, sum(unfair), of, window),
            SloMeasurement(Objective.DOUBLE_MERGES, twice, max(shipped, twice), window),
            SloMeasurement(Objective.DOUBLE_CLAIMS, both, max(granted, both), window),
        ]

    def with_waits(self, caller: Caller, insights: Insights) -> Insights:
        """Add the wait times of each group since this coordinator started."""
        waits_by_group: dict[Labels, tuple[int, float]] = {}
        for (product, *group), (jobs, seconds) in self._counters.waits.items():
            if _covers(caller, product):
                before = waits_by_group.get(tuple(group), (0, 0.0))
                waits_by_group[tuple(group)] = (before[0] + jobs, before[1] + seconds)
        whole = self.waits(caller)
        return replace(
            insights,
            total=_with_wait(insights.total, whole.jobs, whole.seconds),
            by={
                by: tuple(
                    _with_wait(one, *waits_by_group.get((by, one.group), (0, 0.0))) for one in rows
                )
                for by, rows in insights.by.items()
            },
        )

    def waits(self, caller: Caller) -> WaitHistogram:
        """Return the wait histogram of the caller's chosen or visible products."""
        caller.require("read", OWN_PRODUCTS)
        histogram = self._counters.wait_s
        series = [each for labels, each in histogram.series().items() if _covers(caller, labels[0])]
        counts = [sum(column) for column in zip(*(counts for counts, _ in series), strict=True)]
        return WaitHistogram(histogram.bounds, counts, sum(seconds for _, seconds in series))


def _with_wait(one: RunRollup, jobs: int, seconds: float) -> RunRollup:
    return replace(one, waits=jobs, wait_sec=round(seconds, 3))


def _measure_latency(
    objective: Objective, times: Histogram, within_s: float, caller: Caller | None, window: str
) -> SloMeasurement:
    first_late = bisect_left(times.bounds, within_s) + 1
    series = [
        counts
        for labels, (counts, _) in times.series().items()
        if caller is None or _covers(caller, labels[0])
    ]
    late = sum(sum(counts[first_late:]) for counts in series)
    return SloMeasurement(objective, late, sum(map(sum, series)), window)


def _count_ended(counts: Counter[Labels], caller: Caller, stage: Stage | None = None) -> int:
    return sum(
        n
        for (product, ended), n in counts.items()
        if _covers(caller, product) and stage in (None, ended)
    )


def _covers(caller: Caller, product: str) -> bool:
    return caller.product == product if caller.product is not None else caller.can_see(product)
