"""Middleware of every request: request id, host check, log line."""

import random
import re
import secrets
import time
from collections.abc import Collection
from functools import lru_cache

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from gigafactory.api.http.errors import PROBLEM, REQUEST_ID, TITLES
from gigafactory.api.http.response import HttpResponse, encode
from gigafactory.wire.problem import Problem

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names of a coordinator that listens on this machine only."""

_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,100}")
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Bytes that a header cannot have: the server would drop the connection, or send two headers."""
_PORT = re.compile(r":\d{1,5}$")

# Request ids are not secret: seeding once saves a system call per request.
_chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311


class RequestMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] | None) -> None:
        """Serve only these hosts, against DNS rebinding; None for any."""
        self._app = app
        # Bound once: a lazy module logger would be configured again for every line.
        self._log = structlog.get_logger().bind()
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

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
                given = [(name, _UNSENDABLE.sub(b"", value)) for name, value in message["headers"]]
                message["headers"] = [*given, id_header, *_SAFE]
            await send(message)

        served = self._hosts is None or _host_name(headers.get(b"host")) in self._hosts
        try:
            await (self._app if served else _misdirected(request_id))(
                scope, receive, send_with_headers
            )
        finally:
            self._log_request(scope["method"], scope["path"], status, time.perf_counter() - started)

    def _log_request(self, method: str, path: str, status: int, took_s: float) -> None:
        log = self._log
        write = log.error if status >= 500 else log.info if status >= 400 else log.debug  # noqa: PLR2004 - HTTP's own classes
        write("request", method=method, path=path, status=status, ms=round(took_s * 1000, 1))


_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


def _request_id(given: bytes | None) -> str:
    if given is not None and _SANE_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_chance(64):016x}"


@lru_cache(maxsize=256)
def _host_name(host: bytes | None) -> str:
    return _PORT.sub("", (host or b"").decode("latin-1").lower())


def _misdirected(request_id: str) -> HttpResponse:
    problem = Problem(
        type="urn:gigafactory:problem:misdirected",
        title=TITLES[421],
        status=421,
        detail="this coordinator does not serve this host name; add it to its settings",
        code="misdirected",
        request_id=request_id,
    )
    return HttpResponse(421, encode(problem), media_type=PROBLEM.encode())
