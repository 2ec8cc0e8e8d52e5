"""The API application: all routes and shared state."""

from collections.abc import Callable, Sequence
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.types import ControllerRouterHandler

from gigafactory.api.admin import (
    audit,
    budgets,
    dispatch_mode,
    fleet,
    health,
    insights,
    logins,
    products,
    routing,
    tokens,
)
from gigafactory.api.admin import metrics as prometheus
from gigafactory.api.http import openapi
from gigafactory.api.http.authn import Authenticator
from gigafactory.api.http.errors import internal_error, refusal_response, routing_error
from gigafactory.api.http.hosts import ServedHosts
from gigafactory.api.http.limits import FailedAttempts, RateLimiter, UnknownBodies
from gigafactory.api.http.middleware import RequestMiddleware
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.sse import FrameCache, OpenStreams
from gigafactory.api.jobs import (
    archive,
    artifacts,
    composites,
    defects,
    events,
    jobs,
    logs,
    profiles,
    reviews,
    tracker,
)
from gigafactory.api.workers import claims, enrollments, factories, heartbeats, scaling
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Refused

PREFIX = "/api/fleet"

RoutingErrorHandler = Callable[[Request[Any, Any, Any], HTTPException], Response[bytes]]

ROUTES = [
    *jobs.ROUTES,
    *claims.ROUTES,
    *factories.ROUTES,
    *heartbeats.ROUTES,
    *enrollments.ROUTES,
    *events.ROUTES,
    *logs.ROUTES,
    *artifacts.ROUTES,
    *defects.ROUTES,
    *archive.ROUTES,
    *reviews.ROUTES,
    *composites.ROUTES,
    *profiles.ROUTES,
    *products.ROUTES,
    *budgets.ROUTES,
    *fleet.ROUTES,
    *insights.ROUTES,
    *routing.ROUTES,
    *scaling.ROUTES,
    *dispatch_mode.ROUTES,
    *tokens.ROUTES,
    *logins.ROUTES,
    *audit.ROUTES,
    *tracker.ROUTES,
]


def create_app(
    coordinator: Coordinator,
    *,
    hosts: ServedHosts = ServedHosts(),  # noqa: B008 - frozen
    rates: RateLimiter | None = None,
    failed_attempts: FailedAttempts | None = None,
    metrics_open: bool = False,
    extra_routes: Sequence[ControllerRouterHandler] = (),
    on_routing_error: RoutingErrorHandler = routing_error,
) -> Litestar:
    """Create the API application for a running coordinator.

    `on_routing_error` handles unknown paths and
    methods. With `metrics_open`, other machines need no token for `/metrics`.
    Call `app.state.streams.close()` to end open streams before the server stops.
    """
    authn = Authenticator(
        coordinator.tokens,
        rates or RateLimiter(),
        failed_attempts or FailedAttempts(),
        coordinator.wrong_secrets,
    )
    shared = {
        "coordinator": coordinator,
        "hosts": hosts,
        "authn": authn,
        "streams": OpenStreams(),
        "frames": FrameCache(),
        "unknown_bodies": UnknownBodies(),
        "metrics_open": metrics_open,
    }
    app = Litestar(
        [
            Router(PREFIX, route_handlers=ROUTES),
            *health.ROUTES,
            prometheus.prometheus,
            openapi.openapi,
            *extra_routes,
        ],
        request_class=ApiRequest,
        state=State(shared),
        exception_handlers={
            Refused: refusal_response,
            HTTPException: on_routing_error,
            Exception: internal_error,
        },
        openapi_config=None,
        logging_config=None,
    )
    app.asgi_handler = RequestMiddleware(app.asgi_handler, hosts=hosts)
    return app
