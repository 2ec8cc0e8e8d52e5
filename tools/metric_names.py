"""Names of all metrics, for the reference page and the tests of the alert rules."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from gigafactory.api.admin.metric_catalogue import PrometheusCollector
from gigafactory.coordinator.core.counters import Counters
from gigafactory.coordinator.insights.gauges import Gauges
from gigafactory.coordinator.insights.metrics import MetricsSnapshot
from gigafactory.wire.fleet import Capacity, FleetMetrics

IDLE = FleetMetrics(
    stages={},
    board={},
    queue_depth=0,
    factories=Capacity(
        total=0, online=0, draining=0, streaming=0, slots=0, running=0, utilization=0.0
    ),
)


def families() -> list[Metric]:
    """Return every metric family of an idle fleet."""
    moment = MetricsSnapshot(counters=Counters(), gauges=Gauges(), fleet=IDLE, feed_behind=0)
    return list(PrometheusCollector(moment, streams=0).collect())


def names() -> Iterator[str]:
    """Yield the names of the series that expressions may use."""
    for family in families():
        match family.type:
            case "counter":
                yield f"{family.name}_total"
            case "histogram":
                yield from (f"{family.name}_{part}" for part in ("bucket", "count", "sum"))
            case _:
                yield family.name


def labels(family: Metric) -> tuple[str, ...]:
    """Return the labels of a family."""
    found: tuple[str, ...] = getattr(family, "_labelnames", ())
    return found
