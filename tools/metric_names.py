"""Every metric that a coordinator tells, for its reference page and for those who check rules."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from gigafactory.api.admin.metric_catalogue import Exposition
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
    """Every family of metrics, as an idle fleet tells it."""
    moment = MetricsSnapshot(counters=Counters(), gauges=Gauges(), fleet=IDLE, feed_behind=0)
    return list(Exposition(moment, streams=0).collect())


def names() -> Iterator[str]:
    """The names of the series that expressions may use."""
    for family in families():
        match family.type:
            case "counter":
                yield f"{family.name}_total"
            case "histogram":
                yield from (f"{family.name}_{part}" for part in ("bucket", "count", "sum"))
            case _:
                yield family.name


def labels(family: Metric) -> tuple[str, ...]:
    """The labels of a family."""
    found: tuple[str, ...] = getattr(family, "_labelnames", ())
    return found
