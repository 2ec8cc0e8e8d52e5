"""Conversion of problem documents to the domain errors that they were raised as."""

from collections.abc import Iterator
from typing import Any

import msgspec

from gigafactory.domain.errors import (
    Conflict,
    Fault,
    Forbidden,
    Invalid,
    Malformed,
    NotFound,
    Refused,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from gigafactory.wire.problem import ProblemMembers


class Unreachable(Unavailable):
    """No server answers at the address; nothing was sent."""

    code = "unreachable"


class ConnectionBroken(Unavailable):
    """The connection broke before the response; the request may have been processed."""

    code = "lost"


class ServerFailed(Unavailable):
    """The server failed, or a proxy answered in its place; the request may have been processed."""

    code = "internal"


BY_STATUS: dict[int, type[Refused]] = {
    400: Malformed,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}
"""Errors for responses with a code that only a newer server knows."""
BY_STATUS_OF_A_PROXY: dict[int, type[Refused]] = {429: TooManyRequests, 503: Unavailable}
"""Errors for responses without a code. The server gives one with every refusal, so these come from
a proxy, which decides nothing: what it says of a report, job or token must not count."""


def parse_refusal(status: int, body: bytes) -> Refused:
    """Return the error that the coordinator raised, with its message and attributes."""
    try:
        members = msgspec.json.decode(body, type=dict[str, Any])
        problem = msgspec.convert(members, ProblemMembers)
    except (msgspec.DecodeError, ValueError, RecursionError):
        members, problem = {}, ProblemMembers()
    by_status = BY_STATUS if problem.code else BY_STATUS_OF_A_PROXY
    kind = BY_CODE.get(problem.code) or by_status.get(status, ServerFailed)
    detail = problem.detail or problem.title or _without_reason(status)
    # Skip the constructor: it builds the message from parts, but the message has arrived complete.
    refused = kind.__new__(kind, detail)
    Exception.__init__(refused, detail)
    refused.__dict__.update(_attributes(kind, problem.code, members))
    return refused


def _without_reason(status: int) -> str:
    return (
        f"the server answered {status} without a reason, as no coordinator does; if it is not a"
        " proxy of yours, check the URL (AQ_FLEET_API)"
    )


def _attributes(kind: type[Refused], code: str, members: dict[str, Any]) -> dict[str, object]:
    attributes: dict[str, object] = {} if kind.code == code or not code else {"code": code}
    if issubclass(kind, Invalid):
        faults = members.get("faults", ())
        attributes["what"] = "the request"
        attributes["faults"] = tuple(msgspec.convert(faults, list[Fault])) if faults else ()
    names = {
        "jobId": "job_id",
        "presented": "presented",
        "current": "current",
        "expectedOffset": "expected",
        "path": "path",
        "retryAfter": "retry_after_s",
    }
    return attributes | {names[key]: value for key, value in members.items() if key in names}


def _kinds(kind: type[Refused]) -> Iterator[type[Refused]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


BY_CODE = {kind.code: kind for kind in _kinds(Refused)}
