"""Catalogue of the Prometheus metrics."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gigafactory.coordinator.core.counters import Counters, Histogram, Labels
from gigafactory.coordinator.insights.metrics import MetricsSnapshot
from gigafactory.domain.job.event_types import (
    ASSIGNED,
    DEAD_LETTERED,
    FENCED,
    LEASE_EXPIRED,
    SHIPPED,
)

PREFIX = "gigafactory_"
NANO = 1_000_000_000

Values = Iterable[tuple[Labels, float]]

EXPORTED_AT_ZERO = (ASSIGNED, FENCED, LEASE_EXPIRED, DEAD_LETTERED, SHIPPED)
"""Event types exported even at zero, because alerts on rates need a first sample."""


class PrometheusCollector:
    """Prometheus collector of one metrics snapshot."""

    def __init__(self, snapshot: MetricsSnapshot, *, streams: int) -> None:
        """Export a snapshot and the number of open event streams."""
        self._snapshot = snapshot
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as `prometheus_client` expects."""
        yield from self._fleet()
        yield from self._queue()
        yield from self._engines()
        yield from _counters(self._snapshot.counters)
        yield from _histograms(self._snapshot.counters)

    def _fleet(self) -> Iterator[Metric]:
        fleet = self._snapshot.fleet
        yield _gauge("store_up", "1 while the store answers.", float(fleet is not None))
        yield _gauge(
            "feed_behind_events",
            "Events of the change feed not applied yet.",
            self._snapshot.feed_behind,
        )
        yield _gauge("streams_open", "Open event streams of this coordinator.", self._streams)
        if fleet is None:
            return
        stages = {(stage,): count for stage, count in fleet.stages.items()}
        yield _gauges("jobs", "Jobs by stage.", ("stage",), stages.items())
        factories = fleet.factories
        yield _gauge("factories", "Enrolled factories.", factories.total)
        yield _gauge("factories_online", "Factories with a recent heartbeat.", factories.online)
        yield _gauge("factories_draining", "Factories that accept no new work.", factories.draining)
        yield _gauge("slots", "Slots of online factories.", factories.slots)
        yield _gauge("leases", "Active leases.", factories.running)
        yield _gauge("utilization", "Leases divided by slots, 0 to 1.", factories.utilization)

    def _queue(self) -> Iterator[Metric]:
        gauges = self._snapshot.gauges
        depth = {labels: count for labels, count in gauges.waiting.items() if count}
        yield _gauges(
            "queue_depth",
            "Jobs ready to run and not assigned, by product and priority.",
            ("product", "priority"),
            depth.items(),
        )
        yield _gauges(
            "queue_oldest_seconds",
            "Wait of the longest-waiting job; jobs that wait for a lock are excluded.",
            ("product",),
            _by_name(gauges.oldest_s),
        )
        yield _gauge(
            "jobs_unroutable", "Waiting jobs that no factory could ever run.", gauges.unroutable
        )
        yield _gauges(
            "seat_time_seconds",
            "Recent seat time divided by the product's share; equal across busy products if fair.",
            ("product",),
            _by_name(gauges.seat_seconds),
        )
        halted = {name: float(on) for name, on in gauges.halted.items()}
        yield _gauges(
            "halted",
            "1 while a product, or the fleet (*), is halted.",
            ("product",),
            _by_name(halted),
        )

    def _engines(self) -> Iterator[Metric]:
        for name, text in (
            ("total", "Seats of an engine on online factories."),
            ("taken", "Occupied seats of an engine, including offers."),
        ):
            seats = {(e,): getattr(s, name) for e, s in self._snapshot.gauges.seats.items()}
            yield _gauges(f"seats_{name}", text, ("engine",), seats.items())
        for name, text in (
            ("unavailable", "Online factories where an engine is unavailable."),
            ("cooling", "Online factories where an engine has reached its rate limit."),
        ):
            counts = {(e,): getattr(s, name) for e, s in self._snapshot.gauges.seats.items()}
            yield _gauges(f"engine_{name}_factories", text, ("engine",), counts.items())


def _counters(counters: Counters) -> Iterator[Metric]:
    events = {(kind,): counters.events[kind] for kind in {*EXPORTED_AT_ZERO, *counters.events}}
    yield _counter(
        "events", "Events stored by this coordinator, by type.", ("type",), events.items()
    )
    yield _counter(
        "jobs_ended",
        "Jobs that ended, by final stage.",
        ("product", "stage"),
        counters.jobs_ended.items(),
    )
    conflicts = {(why,): counters.claim_conflicts[why] for why in ("moved", "held")}
    yield _counter(
        "claim_conflicts", "Grants lost to a concurrent change.", ("why",), conflicts.items()
    )
    yield _counter(
        "shadow_comparisons",
        "Shadow decisions of the dispatcher, by agreement with the real placement.",
        ("product", "outcome"),
        counters.shadow_comparisons.items(),
    )
    fenced = {(): counters.fencing_rejections}
    yield _counter("fencing_rejections", "Refused writes under a stale lease.", (), fenced.items())
    expired = {(): counters.events[LEASE_EXPIRED]}
    yield _counter("reaps", "Expired leases that were reaped.", (), expired.items())
    dead = {(): counters.events[DEAD_LETTERED]}
    yield _counter("dead_letters", "Jobs that were dead-lettered.", (), dead.items())
    violations = {(kind,): counters.violations[kind] for kind in ("double_lease", "double_ship")}
    text = "Violated invariants: two leases or two ships of one job. Must stay 0."
    yield _counter("violations", text, ("kind",), violations.items())
    verdict_labels = ("product", "verdict")
    yield _counter(
        "verifies", "Verify gates, by verdict.", verdict_labels, counters.verifies.items()
    )
    yield _counter(
        "first_tries",
        "First attempts of jobs, by verdict.",
        verdict_labels,
        counters.first_tries.items(),
    )
    breaches = {(product,): count for product, count in counters.budget_breaches.items()}
    yield _counter(
        "budget_breaches", "Runs that exceeded their budget.", ("product",), breaches.items()
    )
    escaped = {(product,): count for product, count in counters.escaped_defects.items()}
    text = "Shipped jobs that were reverted or reported as defective."
    yield _counter("escaped_defects", text, ("product",), escaped.items())
    cost = {labels: nano / NANO for labels, nano in counters.cost_nano_usd.items()}
    yield _counter("cost_usd", "Cost of runs in USD.", ("product", "engine"), cost.items())
    yield _counter("tokens", "Tokens used by runs.", ("engine", "kind"), counters.tokens.items())
    failures = {(): counters.store_failures}
    yield _counter("store_failures", "Failed accesses to the store.", (), failures.items())
    rollbacks = {(): counters.store_rollbacks}
    text = "Times that the database was found to have lost stored history."
    yield _counter("store_rollbacks", text, (), rollbacks.items())
    text = "Times in which the event loop was blocked for more than 250 ms; the log says by what."
    yield _counter("loop_blocks", text, (), [((), counters.loop_blocks)])
    text = "Total of these times."
    yield _counter("loop_blocked_seconds", text, (), [((), counters.loop_blocked_s)])


def _histograms(counters: Counters) -> Iterable[Metric]:
    product = ("product",)
    return (
        _histogram("assign_seconds", _ASSIGN, product, counters.assign_s),
        _histogram("wait_seconds", _WAIT, product, counters.wait_s),
        _histogram("run_seconds", _RUN, ("engine", "result"), counters.run_s),
        _histogram("reclaim_seconds", _RECLAIM, (), counters.reclaim_s),
        _histogram("commit_seconds", "Duration of commits.", (), counters.commit_s),
        _histogram("feed_lag_seconds", _FEED, (), counters.feed_lag_s),
        _histogram("dispatch_lag_seconds", _DISPATCH, (), counters.dispatch_lag_s),
    )


_ASSIGN = "Time until the lease, once a job is ready and its factory has ended its previous run."
_WAIT = "Time from when a job is ready until its lease."
_RUN = "Duration of runs, by engine and result."
_RECLAIM = "Time from the expiry of a lease until it is reaped."
_FEED = "Time from the commit of an event until this coordinator applies it."
_DISPATCH = "Time from the commit of an offer until it is sent to its factory."


def _by_name(values: Mapping[str, float]) -> Values:
    return [((name,), value) for name, value in values.items()]


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value)


def _gauges(name: str, text: str, labels: Labels, values: Values) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for of, value in sorted(values):
        family.add_metric(of, value)
    return family


def _counter(name: str, text: str, labels: Labels, values: Values) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for of, value in sorted(values):
        family.add_metric(of, value)
    return family


def _histogram(name: str, text: str, labels: Labels, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    series = dict(histogram.series()) or (
        {(): ([0] * (len(histogram.bounds) + 1), 0.0)} if not labels else {}
    )
    for of, (counts, total) in sorted(series.items()):
        buckets, below = [], 0
        for bound, count in zip((*map(str, histogram.bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, float(below)))
        family.add_metric(of, buckets, total)
    return family
