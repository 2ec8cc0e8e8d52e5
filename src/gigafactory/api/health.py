"""Whether the service is there and ready, and its numbers for a metrics collector."""

from collections.abc import Iterable
from typing import Literal

from litestar import get
from litestar.types import ASGIApp
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gigafactory.api.answers import Answer, answer
from gigafactory.api.call import Call
from gigafactory.api.documentation import Body, operation
from gigafactory.api.views import View
from gigafactory.coordinator.metrics import FleetMetrics
from gigafactory.domain.access import Caller, Role

TAG = "Service"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

EVERYTHING = Caller(actor="system:metrics", role=Role.VIEWER, products=("*",))


class Health(View, frozen=True, kw_only=True):
    """It is there."""

    status: Literal["ok"] = "ok"


OK = Answer(200, b'{"status":"ok"}')


@get("/healthz", opt=operation(TAG, gives={200: Body(of=Health)}, token=False))
async def healthz() -> ASGIApp:
    """Say that the process answers."""
    return OK


class Ready(View, frozen=True, kw_only=True):
    """It can serve; `position` is how far the change feed has come."""

    status: Literal["ready"] = "ready"
    position: int


@get("/readyz", opt=operation(TAG, gives={200: Body(of=Ready)}, token=False))
async def readyz(request: Call) -> ASGIApp:
    """Say that the store answers too; 503 while it is away."""
    return answer(Ready(position=await request.coordinator.store.position()))


@get(
    "/metrics",
    opt=operation(
        TAG, gives={200: Body(media_type=PROMETHEUS, text="Prometheus text")}, token=False
    ),
)
async def prometheus(request: Call) -> ASGIApp:
    """Give gauges and counters in Prometheus text, summed over all products."""
    metrics = request.coordinator.metrics
    fleet = await metrics.fleet(EVERYTHING)
    registry = CollectorRegistry()
    registry.register(_Numbers(fleet, dict(metrics.events), len(request.app.state.streams)))
    return Answer(200, generate_latest(registry), media_type=PROMETHEUS.encode())


class _Numbers:
    """One moment's numbers."""

    def __init__(self, fleet: FleetMetrics, events: dict[str, int], streams: int) -> None:
        self._fleet = fleet
        self._events = events
        self._streams = streams

    def collect(self) -> Iterable[Metric]:
        """See prometheus_client."""
        jobs = GaugeMetricFamily("gigafactory_jobs", "Jobs by stage.", labels=["stage"])
        for stage, count in self._fleet.stages.items():
            jobs.add_metric([stage], count)
        yield jobs
        events = CounterMetricFamily(
            "gigafactory_events", "Events seen since the start, by type.", labels=["type"]
        )
        for kind in ("assigned", "fenced", "lease_expired", *sorted(self._events)):
            if kind not in {sample.labels["type"] for sample in events.samples}:
                events.add_metric([kind], self._events.get(kind, 0))
        yield events
        factories = self._fleet.factories
        gauges = {
            "queue_depth": ("Jobs that wait for a factory.", self._fleet.queue_depth),
            "factories": ("Factories that have joined.", factories.total),
            "factories_online": ("Factories heard of lately.", factories.online),
            "slots": ("Slots of the factories that are online.", factories.slots),
            "leases": ("Leases that stand.", factories.running),
            "streams_open": ("Event streams that are open here.", self._streams),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"gigafactory_{name}", text, value)


ROUTES = (healthz, readyz, prometheus)
