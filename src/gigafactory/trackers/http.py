"""HTTP client of trackers; maps error answers to refusals."""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

import httpx
import msgspec

from gigafactory import __version__
from gigafactory.domain.errors import (
    Fault,
    Invalid,
    Malformed,
    Refused,
    TrackerRefused,
    TrackerUnavailable,
)
from gigafactory.system.tls import tls_context

T = TypeVar("T")

TIMEOUT_S = 15.0
ANSWER_BYTES_MAX = 16 << 20
PAGE = 100
PAGES_MAX = 20
NOT_FOUND, GONE = 404, 410
MISSING = (NOT_FOUND, GONE)

_UNAUTHORIZED, _FORBIDDEN, _TIMED_OUT, _TOO_MANY, _BROKEN = 401, 403, 408, 429, 500
_WAIT_S = 60.0
_MESSAGE_MAX = 300


@asynccontextmanager
async def open_client(
    url: str,
    token: str | None,
    headers: Mapping[str, str],
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator["TrackerClient"]:
    """Open a client for the tracker at this URL while the block lasts."""
    netloc = httpx.URL(url).netloc

    async def stay_on_host(request: httpx.Request) -> None:
        # A redirect to another host may lead to this machine.
        if request.url.netloc != netloc:
            message = f"it redirects to another host, {request.url.host}"
            raise httpx.UnsupportedProtocol(message)

    all_headers = {"User-Agent": f"gigafactory/{__version__}", **headers}
    if token is not None:
        all_headers["Authorization"] = f"Bearer {token}"
    async with httpx.AsyncClient(
        base_url=url.rstrip("/"),
        headers=all_headers,
        timeout=TIMEOUT_S,
        transport=transport,
        event_hooks={"request": [stay_on_host]},
        verify=tls_context(),
    ) as http:
        yield TrackerClient(http)


class TrackerClient:
    """Sends requests to one tracker."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def request(
        self,
        method: str,
        path: str,
        subject: str,
        *,
        params: Mapping[str, str] | None = None,
        json: object = None,
        ok: Collection[int] = (200,),
        key: str | None = None,
    ) -> httpx.Response:
        """Send a request; return the answer if its status is one of `ok`.

        Raises TrackerUnavailable, TrackerRefused.
        """
        subject = f"{subject} on {self._http.base_url.host}"
        headers = {} if key is None else {"Idempotency-Key": key}
        try:
            answer = await self._http.request(
                method,
                path,
                params=params,
                json=json,
                headers=headers,
                # A write never follows a redirect.
                follow_redirects=method == "GET",
            )
        except httpx.TimeoutException:
            raise TrackerUnavailable(f"{subject}: no answer within {TIMEOUT_S:g} s") from None
        except httpx.HTTPError as error:
            raise TrackerUnavailable(f"{subject}: cannot reach the tracker: {error}") from None
        if answer.status_code in ok:
            return answer
        raise _error_for(answer, subject, now=datetime.now(UTC))


def decode_answer(content: bytes, kind: type[T], subject: str) -> T:
    """Decode an answer.

    Raises TrackerRefused if it does not match.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrackerRefused(f"{subject}: unexpected answer: {error}") from None


def decode_delivery(body: bytes, kind: type[T]) -> T:
    """Decode a webhook delivery.

    Raises Malformed, Invalid.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as wrong:
        raise Invalid("the delivery", [Fault("", str(wrong))]) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise Malformed(f"the delivery is not valid JSON: {wrong}") from None


def _error_for(answer: httpx.Response, subject: str, *, now: datetime) -> Refused:
    status = answer.status_code
    message = _error_message(answer.content)
    quoted = f"{subject}: {status}" + (f" {message!r}" if message else "")
    if (wait_s := _rate_limit_wait_s(answer, message, now)) is not None:
        return TrackerUnavailable(f"{quoted}: too many requests, wait {wait_s:.0f} s", wait_s)
    # Treated as unavailable: after the token is replaced, the update is retried.
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        return TrackerUnavailable(
            f"{quoted}: the tracker rejected the token, or it lacks permission", _WAIT_S
        )
    if status >= _BROKEN or status == _TIMED_OUT:
        return TrackerUnavailable(f"{quoted}: the tracker has an internal error")
    if status in MISSING:
        return TrackerRefused(f"{quoted}: not found, or not visible to the token")
    return TrackerRefused(quoted)


def _rate_limit_wait_s(answer: httpx.Response, message: str, now: datetime) -> float | None:
    """Return how long to wait after a rate limit; None for other errors."""
    if answer.status_code not in {_FORBIDDEN, _TOO_MANY}:
        return None
    after = answer.headers.get("retry-after", "")
    if after.isdecimal():
        return max(1.0, float(after))
    if answer.headers.get("x-ratelimit-remaining") == "0":
        reset = answer.headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - now.timestamp()) if reset.isdecimal() else _WAIT_S
    return _WAIT_S if answer.status_code == _TOO_MANY or "rate limit" in message.lower() else None


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str = ""
    detail: str = ""


def _error_message(content: bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = msgspec.json.decode(content, type=_ErrorBody)
        return " ".join((body.message or body.detail).split())[:_MESSAGE_MAX]
    return ""
