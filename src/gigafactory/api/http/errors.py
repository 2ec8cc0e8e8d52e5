"""HTTP errors: status codes of refusals, and RFC 9457 problem documents."""

from http import HTTPStatus
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from gigafactory.api.http.response import encode
from gigafactory.domain import errors
from gigafactory.domain.errors import Refused
from gigafactory.wire.problem import Problem

log = structlog.get_logger()

PROBLEM = "application/problem+json"
REQUEST_ID = "aq_request_id"
"""Key of the request id in the ASGI scope."""

STATUS: dict[type[Refused], int] = {
    errors.Malformed: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.TooLarge: 413,
    errors.RangeNotSatisfiable: 416,
    errors.Invalid: 422,
    errors.Halted: 423,
    errors.TooManyRequests: 429,
    errors.Unavailable: 503,
}
"""HTTP status by refusal class, inherited by subclasses."""

TITLES = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long",
    409: "Conflict with the current state",
    413: "Too large",
    416: "Range not satisfiable",
    421: "Unknown host",
    422: "The content is not valid",
    423: "Halted",
    429: "Too many requests",
    431: "The request's head is too large",
    500: "Internal error",
    503: "Temporarily unavailable",
}

RAISED_BY_LITESTAR = {
    400: "malformed",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}


def status_of(refusal: Refused) -> int:
    """Return the HTTP status of a refusal."""
    return next((STATUS[kind] for kind in type(refusal).__mro__ if kind in STATUS), 400)


def to_problem(refusal: Refused, request_id: str | None) -> Problem:
    """Return the problem document of a refusal."""
    status = status_of(refusal)
    more: dict[str, Any] = {}
    match refusal:
        case errors.Invalid():
            more["faults"] = refusal.faults
        case errors.LogGap():
            more["expected_offset"] = refusal.expected
        case errors.Fenced():
            more |= {
                "job_id": refusal.job_id,
                "presented": refusal.presented,
                "current": refusal.current,
            }
        case errors.Cycle():
            more["path"] = refusal.path
        case errors.TooManyRequests():
            more["retry_after"] = refusal.retry_after_s
        case _:
            pass
    return _problem(status, refusal.code, refusal.detail, request_id, **more)


def _problem(
    status: int,
    code: str,
    detail: str,
    request_id: str | None,
    **more: Any,  # noqa: ANN401 - fields of Problem
) -> Problem:
    return Problem(
        type=f"urn:gigafactory:problem:{code}",
        title=TITLES[status],
        status=status,
        detail=detail,
        code=code,
        request_id=request_id,
        **more,
    )


def request_id_of(request: Request[Any, Any, Any]) -> str | None:
    """Return the request id."""
    request_id: str | None = request.scope.get("state", {}).get(REQUEST_ID)
    return request_id


def refusal_response(request: Request[Any, Any, Any], refusal: Refused) -> Response[bytes]:
    """Return the response to a refusal."""
    problem = to_problem(refusal, request_id_of(request))
    headers: dict[str, str] = {}
    if isinstance(refusal, errors.Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if isinstance(refusal, errors.RangeNotSatisfiable):
        headers["content-range"] = f"bytes */{refusal.size}"
    if isinstance(refusal, errors.TooManyRequests):
        headers["retry-after"] = str(refusal.retry_after_s)
    if isinstance(refusal, errors.Unavailable):
        headers["retry-after"] = "1"
    return problem_response(problem, headers)


def routing_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Return the response to an unknown route or method, or a too large body."""
    code = RAISED_BY_LITESTAR.get(error.status_code)
    if code is None:
        return internal_error(request, error)
    sentences = {
        404: f"there is nothing at {request.scope['path']}; /api/openapi.json lists all paths",
        405: f"{request.scope['path']} does not support {request.scope['method']}",
    }
    problem = _problem(
        error.status_code,
        code,
        sentences.get(error.status_code, HTTPStatus(error.status_code).description),
        request_id_of(request),
    )
    return problem_response(problem, dict(error.headers or {}))


def internal_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Log an unexpected error and return a 500 with only the request id."""
    log.error("request failed", path=request.scope["path"], exc_info=error)
    detail = (
        "an unexpected error occurred; the coordinator's log has the details under this request id"
    )
    return problem_response(_problem(500, "internal", detail, request_id_of(request)), {})


def problem_response(problem: Problem, headers: dict[str, str]) -> Response[bytes]:
    """Return a problem document as a response."""
    return Response(
        encode(problem), status_code=problem.status, media_type=PROBLEM, headers=headers
    )
