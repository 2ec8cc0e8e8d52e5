"""All routes of the web pages, and their error pages."""

from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, Router
from litestar.exceptions import HTTPException

from gigafactory.api.http.errors import (
    TITLES,
    internal_error,
    refusal_response,
    request_id_of,
    routing_error,
    status_of,
)
from gigafactory.domain.errors import Fault, Invalid, Refused, Unauthenticated
from gigafactory.web.pages import (
    artifact,
    audit,
    budget,
    children,
    diff,
    fleet,
    home,
    icon,
    insights,
    job,
    job_log,
    jobs,
    login,
    new_job,
    product,
    profile,
    roadmap,
    settings,
)
from gigafactory.web.site import static_files
from gigafactory.web.site.rendering import SECURITY_HEADERS, render
from gigafactory.web.site.session import SESSION_COOKIE

HTML = "text/html"
NOT_FOUND = 404


NEXT_STEPS = {
    403: "Nothing was changed. Ask an admin for the required role.",
    404: "Search the jobs, or start from the attention page.",
    405: "Nothing was changed. Open the page and use its buttons.",
    409: "Reload the page to see the current state, then decide again.",
    500: "Try again. If the error persists, look up the request id below in the coordinator's log.",
    503: "Try again in a moment. Stored data is safe.",
}
"""Advice on each error page, by status code."""


def not_found_response(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Respond to an unknown URL: with a page for browsers, with a problem document for programs."""
    if request.scope["path"].startswith("/api") or not _wants_page(request):
        return routing_error(request, error)
    return _not_served_page(request, error)


def _wants_page(request: Request[Any, Any, Any]) -> bool:
    return HTML in request.headers.get("accept", "")


def _was_signed_in(request: Request[Any, Any, Any]) -> bool:
    return any(name.endswith(SESSION_COOKIE) for name in request.cookies)


def _refusal_response(request: Request[Any, Any, Any], refusal: Refused) -> Response[bytes]:
    if not _wants_page(request):
        return refusal_response(request, refusal)
    if isinstance(refusal, Unauthenticated) and request.method == "GET":
        # A cookie means that the browser was signed in before: say that the session has ended.
        url = "/login?ended=yes" if _was_signed_in(request) else "/login"
        return Response(b"", status_code=303, headers={"location": url})
    faults = refusal.faults if isinstance(refusal, Invalid) else ()
    return _error_page(request, status_of(refusal), refusal.detail, faults)


def _not_served_page(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    path, status = request.scope["path"], error.status_code
    details = {
        404: f"There is no page at {path}.",
        405: f"{path} does not support the method {request.method}.",
    }
    if status not in details:
        return _failure_response(request, error)
    return _error_page(request, status, details[status])


def _failure_response(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    problem = internal_error(request, error)
    if not _wants_page(request):
        return problem
    return _error_page(request, 500, "Internal error. Your request was not the cause.")


def _error_page(
    request: Request[Any, Any, Any], status: int, detail: str, faults: Sequence[Fault] = ()
) -> Response[bytes]:
    html = render(
        "error.html",
        status=status,
        title=TITLES[status],
        detail=detail,
        faults=faults,
        next_step=NEXT_STEPS.get(status, ""),
        retry_url=request.scope["path"]
        if request.method == "GET" and status != NOT_FOUND
        else None,
        request_id=request_id_of(request),
        session=None,
        signed_in=_was_signed_in(request),
        path="",
    )
    headers = {key.decode(): value.decode() for key, value in SECURITY_HEADERS}
    return Response(
        html.encode(),
        status_code=status,
        media_type=HTML,
        headers=headers | {"cache-control": "no-store"},
    )


PAGES = Router(
    "/",
    route_handlers=[
        *login.ROUTES,
        *home.ROUTES,
        *jobs.ROUTES,
        *job.ROUTES,
        *job_log.ROUTES,
        *diff.ROUTES,
        *artifact.ROUTES,
        *new_job.ROUTES,
        *children.ROUTES,
        *roadmap.ROUTES,
        *product.ROUTES,
        *budget.ROUTES,
        *insights.ROUTES,
        *settings.ROUTES,
        *profile.ROUTES,
        *audit.ROUTES,
        *fleet.ROUTES,
        *icon.ROUTES,
        *static_files.ROUTES,
    ],
    exception_handlers={
        Refused: _refusal_response,
        HTTPException: _not_served_page,
        Exception: _failure_response,
    },
)
"""All pages. Live parts need a `PartCache` in `app.state.parts`."""
