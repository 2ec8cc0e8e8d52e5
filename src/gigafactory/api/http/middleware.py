"""Middleware of every request: request id, host check, log line."""

import random
import re
import secrets
import time
from collections.abc import Iterable

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from gigafactory.api.http.errors import REQUEST_ID
from gigafactory.api.http.hosts import ServedHosts, host_name, is_for_programs
from gigafactory.api.http.misdirected import NO_PAGES, NOT_SERVED, misdirected_response
from gigafactory.api.http.request import KNOWN
from gigafactory.api.http.response import HttpResponse
from gigafactory.system.log_throttle import LogThrottle

PATH_SHOWN_MAX = 1000
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,100}")
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Bytes that a header cannot have: the server would drop the connection, or send two headers."""

Headers = Iterable[tuple[bytes, bytes]]

# Request ids are not secret: seeding once saves a system call per request.
_chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, hosts: ServedHosts) -> None:
        self._app = app
        # Bound once: a lazy module logger would be configured again for every line.
        self._log = structlog.get_logger().bind()
        self._hosts = hosts
        self._throttle = LogThrottle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = _request_id(headers.get(b"x-request-id"))
        scope["state"][REQUEST_ID] = request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        id_header = (b"x-request-id", request_id.encode())
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*_sendable(message["headers"]), id_header, *_SAFE]
            await send(message)

        refusal = self._refusal(headers, scope, request_id)
        try:
            await (refusal or self._app)(scope, receive, send_with_headers)
        finally:
            self._log_request(scope, status, time.perf_counter() - started)

    def _refusal(
        self, headers: dict[bytes, bytes], scope: HTTPScope, request_id: str
    ) -> HttpResponse | None:
        """Return the response to a request for a host name that is not served, else None."""
        name, path = host_name(headers.get(b"host")), scope["path"]
        serves = self._hosts.serves(name)
        if serves and (is_for_programs(path) or self._hosts.serves_pages(name)):
            return None
        accept = headers.get(b"accept", b"")
        if not serves:
            return misdirected_response(request_id, NOT_SERVED, accept=accept)
        url = self._hosts.public_url
        if url is not None and scope["method"] in {"GET", "HEAD"}:
            raw, query = scope["raw_path"], scope["query_string"]
            location = url.encode("ascii") + raw + (b"?" + query if query else b"")
            return HttpResponse(307, headers=((b"location", location),))
        return misdirected_response(request_id, NO_PAGES, accept=accept)

    def _log_request(self, scope: HTTPScope, status: int, took_s: float) -> None:
        method, path = scope["method"], scope["path"]
        refused = 400 <= status < 500  # noqa: PLR2004 - HTTP's own class
        if refused and KNOWN not in scope["state"]:
            # Strangers could fill the disk with lines.
            path = path[:PATH_SHOWN_MAX]
            self._throttle.info(f"refused a stranger: {status}", method=method, path=path)
            return
        log = self._log
        write = log.error if status >= 500 else log.info if refused else log.debug  # noqa: PLR2004 - HTTP's own class
        write("request", method=method, path=path, status=status, ms=round(took_s * 1000, 1))


_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


def _sendable(headers: Headers) -> Headers:
    """Return the headers of a response without bytes that no header can have."""
    if not _UNSENDABLE.search(b"".join([value for _, value in headers])):
        return headers
    return [(name, _UNSENDABLE.sub(b"", value)) for name, value in headers]


def _request_id(given: bytes | None) -> str:
    if given is not None and _SANE_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_chance(64):016x}"
