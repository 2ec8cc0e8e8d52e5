"""The application: every route, and what all of them share."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.types import ControllerRouterHandler

from gigafactory.api.admin import (
    audit,
    budgets,
    fleet,
    health,
    insights,
    logins,
    products,
    routing,
    tokens,
)
from gigafactory.api.admin import dispatch_mode as shadow
from gigafactory.api.admin import metrics as prometheus
from gigafactory.api.http import openapi
from gigafactory.api.http.authn import Authn
from gigafactory.api.http.errors import failed, not_served, refused
from gigafactory.api.http.limits import Guesses, Rates
from gigafactory.api.http.middleware import Edge
from gigafactory.api.http.request import Call
from gigafactory.api.http.sse import Frames, OpenStreams
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

Nowhere = Callable[[Request[Any, Any, Any], HTTPException], Response[bytes]]

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
    *shadow.ROUTES,
    *tokens.ROUTES,
    *logins.ROUTES,
    *audit.ROUTES,
    *tracker.ROUTES,
]


def create_app(
    coordinator: Coordinator,
    *,
    hosts: Collection[str] | None = None,
    rates: Rates | None = None,
    guesses: Guesses | None = None,
    metrics_open: bool = False,
    more: Sequence[ControllerRouterHandler] = (),
    nowhere: Nowhere = not_served,
) -> Litestar:
    """The API over a coordinator, which the caller has running.

    `hosts` are the names that it answers to (None: any), `more` are further routes beside the API,
    `nowhere` answers an address or a method that no route has;
    with `metrics_open` other machines need no token for `/metrics`.
    Before the server stops, `app.state.streams.close()` ends the streams that are open.
    """
    authn = Authn(coordinator.tokens, rates or Rates(), guesses or Guesses())
    shared = {
        "coordinator": coordinator,
        "authn": authn,
        "streams": OpenStreams(),
        "frames": Frames(),
        "metrics_open": metrics_open,
    }
    app = Litestar(
        [
            Router(PREFIX, route_handlers=ROUTES),
            *health.ROUTES,
            prometheus.prometheus,
            openapi.openapi,
            *more,
        ],
        request_class=Call,
        state=State(shared),
        exception_handlers={Refused: refused, HTTPException: nowhere, Exception: failed},
        openapi_config=None,
        logging_config=None,
    )
    app.asgi_handler = Edge(app.asgi_handler, hosts=hosts)
    return app
