"""All that a coordinator answers over HTTP: its API, and its pages."""

from collections.abc import Collection

from litestar import Litestar

from gigafactory.api.app import create_app
from gigafactory.api.http.limits import FailedAttempts, RateLimiter
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.web.routes import PAGES, nowhere
from gigafactory.web.site.live import Parts


def application(
    coordinator: Coordinator,
    *,
    hosts: Collection[str] | None = None,
    rates: RateLimiter | None = None,
    guesses: FailedAttempts | None = None,
    metrics_open: bool = False,
) -> Litestar:
    """The API and the pages over a coordinator, which the caller has running; see `create_app`."""
    app = create_app(
        coordinator,
        hosts=hosts,
        rates=rates,
        guesses=guesses,
        metrics_open=metrics_open,
        extra_routes=[PAGES],
        on_routing_error=nowhere,
    )
    app.state.parts = Parts(coordinator.index)
    return app
