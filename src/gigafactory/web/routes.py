"""Every page, and what they show when something is refused or away."""

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
from gigafactory.web.site.rendering import GUARDED, rendered
from gigafactory.web.site.session import SESSION

HTML = "text/html"
MISSING = 404


NEXT = {
    403: "Ask an admin for the role, or go back: nothing was done.",
    404: "Look for it among the jobs, or begin with what needs you.",
    405: "Open the page first, and use its buttons: nothing was done.",
    409: "Look at how it stands now, and decide again.",
    500: "Try again. If it stays, the coordinator's log says why, under the request below.",
    503: "Try again in a moment: what is stored is safe.",
}
"""What whoever sees such a page does best."""


def nowhere(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer an address that nobody has: a page for people, a problem for programs."""
    if request.scope["path"].startswith("/api") or not _wants_page(request):
        return routing_error(request, error)
    return _not_served(request, error)


def _wants_page(request: Request[Any, Any, Any]) -> bool:
    """Whether a person looks, rather than a script of the page or a program."""
    return HTML in request.headers.get("accept", "")


def _refused(request: Request[Any, Any, Any], refusal: Refused) -> Response[bytes]:
    """Say what was refused and what to do; whoever is not signed in is asked to."""
    if not _wants_page(request):
        return refusal_response(request, refusal)
    if isinstance(refusal, Unauthenticated) and request.method == "GET":
        # Whoever comes with a cookie was signed in once, and is told that this has ended.
        place = "/login?ended=yes" if SESSION in request.cookies else "/login"
        return Response(b"", status_code=303, headers={"location": place})
    faults = refusal.faults if isinstance(refusal, Invalid) else ()
    return _told(request, status_of(refusal), refusal.detail, faults)


def _not_served(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    path, status = request.scope["path"], error.status_code
    sentences = {
        404: f"there is no page at {path}",
        405: f"{path} is not opened that way",
    }
    if status not in sentences:
        return _failed(request, error)
    return _told(request, status, sentences[status])


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    problem = internal_error(request, error)
    if not _wants_page(request):
        return problem
    return _told(request, 500, "this is a fault of ours, and not of what you did")


def _told(
    request: Request[Any, Any, Any], status: int, detail: str, faults: Sequence[Fault] = ()
) -> Response[bytes]:
    html = rendered(
        "error.html",
        status=status,
        title=TITLES[status],
        detail=detail,
        faults=faults,
        next=NEXT.get(status, ""),
        again=request.scope["path"] if request.method == "GET" and status != MISSING else None,
        request_id=request_id_of(request),
        visitor=None,
        known=SESSION in request.cookies,
        path="",
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
    exception_handlers={Refused: _refused, HTTPException: _not_served, Exception: _failed},
)
"""All pages; the parts that move need `app.state.parts`."""
