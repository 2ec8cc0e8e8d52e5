"""Counters and histograms of one coordinator since its start, fed by its commits."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from gigafactory.domain.insights.run_rollup import NO_GROUP, UNJUDGED_RESULTS, GroupBy
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import (
    CommitResult,
    JobChange,
    KeyTaken,
    RecordChange,
    StaleRevision,
    Stored,
    Write,
)
from gigafactory.domain.job.job import FINAL, Event, Job, Lease, Result, Stage, Step
from gigafactory.domain.job.run import Run, Usage
from gigafactory.domain.manifest.engine_ref import base_engine

PRODUCTS_MAX = 100
"""Products with a series of their own; all others share one. No series is per job."""
ENGINES_MAX = 40
GROUPS_MAX = 200
"""Profiles, repos and factories with wait statistics of their own."""
OTHER_LABELS = "(others)"

QUICK_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WAITS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0)
RUNS_S = (1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)
COMMITS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

COUNTED_MORE = frozenset(
    {
        event_types.ASSIGNED,
        event_types.LEASE_EXPIRED,
        event_types.VERIFY_PASSED,
        event_types.VERIFY_FAILED,
        event_types.DEFECT_REPORTED,
        event_types.BUDGET_EXCEEDED,
        event_types.SHIPPED,
    }
)
"""Types of events that count for more than their number; most events do not."""

WAITS_BY = (GroupBy.ENGINE, GroupBy.PROFILE, GroupBy.REPO, GroupBy.FACTORY)
"""Dimensions of wait statistics on the web pages; too many series for exported metrics."""

Labels = tuple[str, ...]


class LabelLimit:
    """Bounds the number of label values: all after the first `most` become `OTHER_LABELS`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._labels: set[str] = set()

    def __call__(self, name: str | None) -> str:
        """Return the label to count under."""
        if name is None:
            return NO_GROUP
        if name not in self._labels:
            if len(self._labels) >= self._most:
                return OTHER_LABELS
            self._labels.add(name)
        return name


class Histogram:
    """A histogram with fixed bounds, by labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._series: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one value; negative values count as 0."""
        value = max(value, 0.0)
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = ([0] * (len(self.bounds) + 1), [0.0])
        series[0][bisect_left(self.bounds, value)] += 1
        series[1][0] += value

    def series(self) -> Mapping[Labels, tuple[Sequence[int], float]]:
        """Return by labels the counts per bucket (the last is above all bounds) and the sum."""
        return {labels: (counts, total[0]) for labels, (counts, total) in self._series.items()}


class Counters:
    """The counters of one coordinator; the fleet's value is the sum over all coordinators."""

    def __init__(self) -> None:
        self.product = LabelLimit(PRODUCTS_MAX)
        self.engine = LabelLimit(ENGINES_MAX)
        self.events: Counter[str] = Counter()
        self.jobs_ended: Counter[Labels] = Counter()
        """By product and final stage."""
        self.verifies: Counter[Labels] = Counter()
        self.first_tries: Counter[Labels] = Counter()
        self.budget_breaches: Counter[str] = Counter()
        self.escaped_defects: Counter[str] = Counter()
        """Shipped jobs with a reported defect, by product."""
        self.cost_nano_usd: Counter[Labels] = Counter()
        self.tokens: Counter[Labels] = Counter()
        self.claim_conflicts: Counter[str] = Counter()
        self.shadow_comparisons: Counter[Labels] = Counter()
        """Decisions in shadow mode, by product and comparison outcome."""
        self.violations: Counter[str] = Counter()
        self.fencing_rejections = 0
        self.store_failures = 0
        self.store_rollbacks = 0
        self.loop_blocks = 0
        self.loop_blocked_s = 0.0
        self.assign_s = Histogram(QUICK_S)
        self.wait_s = Histogram(WAITS_S)
        self.waits: dict[Labels, tuple[int, float]] = {}
        """Number of jobs and total wait, by product, dimension and group."""
        self.run_s = Histogram(RUNS_S)
        self.reclaim_s = Histogram(QUICK_S)
        self.commit_s = Histogram(COMMITS_S)
        self.feed_lag_s = Histogram(QUICK_S)
        self.dispatch_lag_s = Histogram(QUICK_S)
        self._group = {by: LabelLimit(GROUPS_MAX) for by in WAITS_BY}
        self._freed: dict[str, datetime] = {}
        """When a run last ended on a factory."""

    def count_loop_block(self, seconds: float) -> None:
        """Count a time in which the event loop served nobody."""
        self.loop_blocks += 1
        self.loop_blocked_s += seconds

    def count_commit(
        self, operation: str, writes: Sequence[Write], verdict: CommitResult, took_s: float
    ) -> None:
        """Count the changes of a stored commit, or the conflict of a refused one."""
        self.commit_s.observe(took_s)
        match verdict:
            case Stored():
                for write in writes:
                    if isinstance(write, JobChange):
                        self._count_change(write)
                    elif isinstance(write, RecordChange):
                        self._count_record(write)
            case StaleRevision() if operation == "grant":
                self.claim_conflicts["moved"] += 1
            case KeyTaken() if operation == "grant":
                self.claim_conflicts["held"] += 1
            case _:
                return

    def _count_change(self, change: JobChange) -> None:
        before, after = change.before, change.after
        for event in change.events:
            self.events[event.type] += 1
            if event.type in COUNTED_MORE:
                self._count_event(change, event)
        if after.stage in FINAL and (before is None or before.stage is not after.stage):
            self.jobs_ended[self.product(after.product_id), after.stage] += 1
        if before is not None and before.lease is not None and after.lease is None:
            self._freed[before.lease.factory_id] = after.updated_at

    def _count_event(self, change: JobChange, event: Event) -> None:
        product = self.product(change.after.product_id)
        match event.type:
            case event_types.ASSIGNED:
                self._count_assignment(change, event)
            case event_types.LEASE_EXPIRED:
                self._count_expiry(change, event)
            case event_types.VERIFY_PASSED | event_types.VERIFY_FAILED:
                self.verifies[product, event.type.removeprefix("verify_")] += 1
            case event_types.DEFECT_REPORTED if change.before and not change.before.defects:
                self.escaped_defects[product] += 1
            case event_types.BUDGET_EXCEEDED:
                self.budget_breaches[product] += 1
            case event_types.SHIPPED if change.before and change.before.stage is Stage.SHIPPED:
                self.violations["double_ship"] += 1
            case _:
                return

    def _count_assignment(self, change: JobChange, event: Event) -> None:
        before, lease = change.before, change.after.lease
        if before is None or lease is None:
            return
        if before.lease is not None:
            self.violations["double_lease"] += 1
        product = self.product(before.product_id)
        ready = before.ready_since
        waited_s = max((event.at - ready).total_seconds(), 0.0)
        self.wait_s.observe(waited_s, product)
        # The wait for a ship step says nothing about an engine.
        if lease.step is Step.RUN:
            self._count_wait(product, before, lease, waited_s)
        # A job with a lock may wait for another job rather than for the fleet.
        if before.lock is None:
            since = max(ready, self._freed.get(lease.factory_id, ready))
            self.assign_s.observe((event.at - since).total_seconds(), product)

    def _count_wait(self, product: str, job: Job, lease: Lease, waited_s: float) -> None:
        groups = (lease.engine, job.profile, job.ask.repo, lease.factory_id)
        for by, group in zip(WAITS_BY, groups, strict=True):
            labels = (product, by, self._group[by](group))
            jobs, seconds = self.waits.get(labels, (0, 0.0))
            self.waits[labels] = (jobs + 1, seconds + waited_s)

    def _count_expiry(self, change: JobChange, event: Event) -> None:
        lease = change.before.lease if change.before else None
        if lease is not None:
            self.reclaim_s.observe((event.at - lease.expires_at).total_seconds())

    def _count_record(self, saved: RecordChange) -> None:
        for event in saved.events:
            self.events[event.type] += 1
        run = saved.after
        if not isinstance(run, Run):
            return
        before = saved.before if isinstance(saved.before, Run) else None
        product = self.product(run.product_id)
        engine = self.engine(None if run.engine is None else base_engine(run.engine))
        self._count_usage(product, engine, before.usage if before else None, run.usage)
        if run.step is Step.RUN and run.ended_at is not None and not (before and before.ended_at):
            result = str(run.result)
            run_seconds = (run.ended_at - (run.started_at or run.granted_at)).total_seconds()
            self.run_s.observe(
                run_seconds if run.wall_sec is None else run.wall_sec, engine, result
            )
            if run.attempt == 1 and run.result not in UNJUDGED_RESULTS:
                verdict = "passed" if run.result is Result.OK else "failed"
                self.first_tries[product, verdict] += 1

    def _count_usage(
        self, product: str, engine: str, before: Usage | None, after: Usage | None
    ) -> None:
        """Add the increase; counters never decrease, so a downward correction is ignored."""
        if after is None or after == before:
            return
        before = before or Usage()
        spent = (after.cost_nano_usd or 0) - (before.cost_nano_usd or 0)
        self.cost_nano_usd[product, engine] += max(spent, 0)
        for kind in ("in", "cached", "cache_write", "out"):
            name = f"tokens_{kind}"
            more = getattr(after, name) - getattr(before, name)
            self.tokens[engine, kind] += max(more, 0)
