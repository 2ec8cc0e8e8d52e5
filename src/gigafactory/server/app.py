"""The ASGI application: API and web pages."""

from litestar import Litestar

from gigafactory.api.app import create_app
from gigafactory.api.http.hosts import ServedHosts
from gigafactory.api.http.limits import FailedAttempts, RateLimiter
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.web.routes import PAGES, not_found_response
from gigafactory.web.site.live import PartCache


def create_application(
    coordinator: Coordinator,
    *,
    hosts: ServedHosts = ServedHosts(),  # noqa: B008 - frozen
    rates: RateLimiter | None = None,
    failed_attempts: FailedAttempts | None = None,
    metrics_open: bool = False,
) -> Litestar:
    """Return the application for a running coordinator."""
    app = create_app(
        coordinator,
        hosts=hosts,
        rates=rates,
        failed_attempts=failed_attempts,
        metrics_open=metrics_open,
        extra_routes=[PAGES],
        on_routing_error=not_found_response,
    )
    app.state.parts = PartCache(coordinator.index)
    return app
