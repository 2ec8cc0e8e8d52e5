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

PREFIX = "gigafactory_"
NANO = 1_000_000_000

Values = Iterable[tuple[Labels, float]]

SHOWN_AT_ZERO = ("assigned", "fenced", "lease_expired", "dead_lettered", "shipped")
"""Events exported even at zero: alerts on rates need the zero."""


class PrometheusCollector:
    """Prometheus collector of one metrics snapshot."""

    def __init__(self, moment: MetricsSnapshot, *, streams: int) -> None:
        """Tell of this moment."""
        self._moment = moment
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield from self._fleet()
        yield from self._queue()
        yield from self._engines()
        yield from _counters(self._moment.counters)
        yield from _histograms(self._moment.counters)

    def _fleet(self) -> Iterator[Metric]:
        moment = self._moment
        yield _gauge("store_up", "1 while the store answers.", float(moment.fleet is not None))
        yield _gauge("feed_behind_events", "Events not taken in yet.", moment.feed_behind)
        yield _gauge("streams_open", "Event streams that are open here.", self._streams)
        if moment.fleet is None:
            return
        stages = {(stage,): count for stage, count in moment.fleet.stages.items()}
        yield _gauges("jobs", "Jobs by stage.", ("stage",), stages.items())
        factories = moment.fleet.factories
        yield _gauge("factories", "Factories that have joined.", factories.total)
        yield _gauge("factories_online", "Factories heard of lately.", factories.online)
        yield _gauge("factories_draining", "Factories that take nothing new.", factories.draining)
        yield _gauge("slots", "Slots of the factories that are online.", factories.slots)
        yield _gauge("leases", "Leases that stand.", factories.running)
        yield _gauge("utilization", "Leases over slots, 0 to 1.", factories.utilization)

    def _queue(self) -> Iterator[Metric]:
        told = self._moment.gauges
        depth = {labels: count for labels, count in told.waiting.items() if count}
        yield _gauges(
            "queue_depth",
            "Jobs whose time has come and that no factory has, by product and priority.",
            ("product", "priority"),
            depth.items(),
        )
        yield _gauges(
            "queue_oldest_seconds",
            "How long the job has waited that waits longest, those behind locks apart.",
            ("product",),
            _by_name(told.oldest_s),
        )
        yield _gauge(
            "jobs_unroutable", "Waiting jobs that no factory could ever run.", told.unroutable
        )
        yield _gauges(
            "seat_time_seconds",
            "Recent seat-time over the product's share; fair is equal, where there is work.",
            ("product",),
            _by_name(told.seat_seconds),
        )
        halted = {name: float(on) for name, on in told.halted.items()}
        yield _gauges(
            "halted", "1 while a product, or all (*), is halted.", ("product",), _by_name(halted)
        )

    def _engines(self) -> Iterator[Metric]:
        for name, text in (
            ("total", "Seats of an engine on the factories that are online."),
            ("taken", "Seats of an engine that are taken, offers included."),
        ):
            seats = {(e,): getattr(s, name) for e, s in self._moment.gauges.seats.items()}
            yield _gauges(f"seats_{name}", text, ("engine",), seats.items())
        for name, text in (
            ("unavailable", "Factories that are online, on which an engine cannot be used."),
            ("cooling", "Factories that are online, on which an engine's limit is used up."),
        ):
            rests = {(e,): getattr(s, name) for e, s in self._moment.gauges.seats.items()}
            yield _gauges(f"engine_{name}_factories", text, ("engine",), rests.items())


def _counters(counters: Counters) -> Iterator[Metric]:
    events = {(kind,): counters.events[kind] for kind in {*SHOWN_AT_ZERO, *counters.events}}
    yield _counter(
        "events", "Events that this coordinator stored, by type.", ("type",), events.items()
    )
    yield _counter(
        "jobs_ended", "Jobs that came to an end.", ("product", "stage"), counters.jobs_ended.items()
    )
    conflicts = {(why,): counters.claim_conflicts[why] for why in ("moved", "held")}
    yield _counter("claim_conflicts", "Grants lost to another.", ("why",), conflicts.items())
    yield _counter(
        "shadow_comparisons",
        "Decisions of the dispatcher in shadow, beside what really happened.",
        ("product", "outcome"),
        counters.shadow_comparisons.items(),
    )
    fenced = {(): counters.fencing_rejections}
    yield _counter(
        "fencing_rejections", "Writes of stale workers that were refused.", (), fenced.items()
    )
    expired = {(): counters.events["lease_expired"]}
    yield _counter("reaps", "Leases that were taken from silent factories.", (), expired.items())
    dead = {(): counters.events["dead_lettered"]}
    yield _counter("dead_letters", "Jobs that were dead-lettered.", (), dead.items())
    violations = {(kind,): counters.violations[kind] for kind in ("double_lease", "double_ship")}
    text = "What must never happen: two leases at once, two ships of one job."
    yield _counter("violations", text, ("kind",), violations.items())
    judged = ("product", "verdict")
    yield _counter(
        "verifies", "Quality gates that passed or failed.", judged, counters.verifies.items()
    )
    yield _counter(
        "first_tries", "First runs of jobs, by verdict.", judged, counters.first_tries.items()
    )
    over = {(product,): count for product, count in counters.budget_breaches.items()}
    yield _counter(
        "budget_breaches", "Runs that went over their budget.", ("product",), over.items()
    )
    found = {(product,): count for product, count in counters.escaped_defects.items()}
    text = "Shipped jobs that were reverted, or named in a bug."
    yield _counter("escaped_defects", text, ("product",), found.items())
    cost = {labels: nano / NANO for labels, nano in counters.cost_nano_usd.items()}
    yield _counter("cost_usd", "What runs have cost, in USD.", ("product", "engine"), cost.items())
    yield _counter(
        "tokens", "Tokens that runs have used.", ("engine", "kind"), counters.tokens.items()
    )
    away = {(): counters.store_failures}
    yield _counter("store_failures", "Times that the store could not be used.", (), away.items())


def _histograms(counters: Counters) -> Iterable[Metric]:
    product = ("product",)
    return (
        _histogram("assign_seconds", _ASSIGN, product, counters.assign_s),
        _histogram("wait_seconds", _WAIT, product, counters.wait_s),
        _histogram("run_seconds", _RUN, ("engine", "result"), counters.run_s),
        _histogram("reclaim_seconds", _RECLAIM, (), counters.reclaim_s),
        _histogram("commit_seconds", "How long commits take.", (), counters.commit_s),
        _histogram("feed_lag_seconds", _FEED, (), counters.feed_lag_s),
        _histogram("dispatch_lag_seconds", _DISPATCH, (), counters.dispatch_lag_s),
    )


_ASSIGN = "From when a job was ready and its factory had last ended a run, until its lease."
_WAIT = "From when a job was ready until its lease."
_RUN = "How long runs last, by engine and result."
_RECLAIM = "From the end of a silent factory's lease until it was taken away."
_FEED = "From an event's commit until this coordinator took it in."
_DISPATCH = "From an offer's commit until it was passed on to its factory."


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


def _histogram(name: str, text: str, labels: Labels, told: Histogram) -> Metric:
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    series = dict(told.series()) or (
        {(): ([0] * (len(told.bounds) + 1), 0.0)} if not labels else {}
    )
    for of, (counts, total) in sorted(series.items()):
        buckets, below = [], 0
        for bound, count in zip((*map(str, told.bounds), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, float(below)))
        family.add_metric(of, buckets, total)
    return family
