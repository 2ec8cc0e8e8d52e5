"""Every page, and what they show when something is refused or away."""

from typing import Any

from litestar import Request, Response, Router
from litestar.exceptions import HTTPException

from gigafactory.api.errors import TITLES, failed, request_id_of, status_of
from gigafactory.domain.errors import Invalid, Refused, Unauthenticated
from gigafactory.web import static_files
from gigafactory.web.pages import (
    budget,
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
    roadmap,
    settings,
)
from gigafactory.web.rendering import GUARDED, rendered

HTML = "text/html"


def _refused(request: Request[Any, Any, Any], refusal: Refused) -> Response[bytes]:
    """Say what was refused and what to do; whoever is not signed in is asked to."""
    if isinstance(refusal, Unauthenticated) and request.method == "GET" and _wants_page(request):
        return Response(b"", status_code=303, headers={"location": "/login"})
    faults = refusal.faults if isinstance(refusal, Invalid) else ()
    return _told(request, status_of(refusal), refusal.detail, faults)


def _wants_page(request: Request[Any, Any, Any]) -> bool:
    """Whether a person looks, rather than a script of the page."""
    return HTML in request.headers.get("accept", "")


def _not_served(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    status = error.status_code if error.status_code in TITLES else 400
    return _told(request, status, "there is no such page", ())


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    failed(request, error)
    return _told(request, 500, "this is our fault, and in the coordinator's log", ())


def _told(
    request: Request[Any, Any, Any], status: int, detail: str, faults: object
) -> Response[bytes]:
    html = rendered(
        "error.html",
        status=status,
        title=TITLES[status],
        detail=detail,
        faults=faults,
        request_id=request_id_of(request),
        visitor=None,
        user=None,
        role=None,
        chosen=None,
        path=request.url.path,
    )
    headers = {key.decode(): value.decode() for key, value in GUARDED}
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
        *new_job.ROUTES,
        *roadmap.ROUTES,
        *budget.ROUTES,
        *insights.ROUTES,
        *settings.ROUTES,
        *fleet.ROUTES,
        *icon.ROUTES,
        *static_files.ROUTES,
    ],
    exception_handlers={Refused: _refused, HTTPException: _not_served, Exception: _failed},
)
"""All pages; the parts that move need `app.state.parts`."""
