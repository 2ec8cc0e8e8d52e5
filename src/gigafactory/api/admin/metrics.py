"""Prometheus endpoint and its access rules."""

from ipaddress import ip_address

from litestar import get
from litestar.types import ASGIApp
from prometheus_client import CollectorRegistry, generate_latest

from gigafactory.api.admin.metric_catalogue import PrometheusCollector
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.domain.job.change import FLEET

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip")


@get(
    "/metrics",
    opt=operation(
        "Service",
        responses={200: Body(media_type=PROMETHEUS, description="Prometheus text")},
        errors=(401, 403),
        token=False,
    ),
)
async def prometheus(request: ApiRequest) -> ASGIApp:
    """Return the metrics of all products in Prometheus text format.

    Needs no token on the coordinator's machine. Elsewhere it needs a token for all products, unless
    `server.metrics-open` is set.
    """
    if not (request.app.state.metrics_open or _is_local(request)):
        caller = await request.caller()
        caller.require("read", (FLEET,))
    snapshot = await request.coordinator.metrics.snapshot()
    registry = CollectorRegistry()
    registry.register(PrometheusCollector(snapshot, streams=len(request.app.state.streams)))
    return HttpResponse(200, generate_latest(registry), media_type=PROMETHEUS.encode())


def _is_local(request: ApiRequest) -> bool:
    """Return whether the request comes directly from this machine, not through a proxy on it."""
    if any(request.header(name) is not None for name in FORWARDED):
        return False
    try:
        return ip_address(request.address).is_loopback
    except ValueError:
        return False
