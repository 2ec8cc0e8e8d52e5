"""How a tracker is asked over HTTP, and what every kind of no means to us."""

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
from gigafactory.system.tls import trusted

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
    """A line to the tracker at this address while the block lasts."""
    shown = {"User-Agent": f"gigafactory/{__version__}", **headers}
    if token is not None:
        shown["Authorization"] = f"Bearer {token}"
    async with httpx.AsyncClient(
        base_url=url.rstrip("/"),
        headers=shown,
        timeout=TIMEOUT_S,
        transport=transport,
        verify=trusted(),
    ) as http:
        yield TrackerClient(http)


class TrackerClient:
    """One tracker's address, with the token shown."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def request(
        self,
        method: str,
        path: str,
        what: str,
        *,
        params: Mapping[str, str] | None = None,
        json: object = None,
        fine: Collection[int] = (200,),
        key: str | None = None,
    ) -> httpx.Response:
        """One answer with a status that is fine.

        Raises TrackerUnavailable, TrackerRefused.
        """
        what = f"{what} on {self._http.base_url.host}"
        headers = {} if key is None else {"Idempotency-Key": key}
        try:
            answer = await self._http.request(
                method,
                path,
                params=params,
                json=json,
                headers=headers,
                # A write is never passed on to somewhere else.
                follow_redirects=method == "GET",
            )
        except httpx.TimeoutException:
            raise TrackerUnavailable(f"{what}: no answer within {TIMEOUT_S:g} s") from None
        except httpx.HTTPError as error:
            raise TrackerUnavailable(f"{what}: the tracker is not reached: {error}") from None
        if answer.status_code in fine:
            return answer
        raise _error_for(answer, what, now=datetime.now(UTC))


def decode_answer(content: bytes, kind: type[T], what: str) -> T:
    """An answer as a record.

    Raises TrackerRefused for one that is none.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrackerRefused(f"{what}: the answer is none that we know: {error}") from None


def decode_delivery(body: bytes, kind: type[T]) -> T:
    """What somebody has sent, as a record.

    Raises Malformed, Invalid.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as wrong:
        raise Invalid("the delivery", [Fault("", str(wrong))]) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise Malformed(f"the delivery is not readable as JSON: {wrong}") from None


def _error_for(answer: httpx.Response, what: str, *, now: datetime) -> Refused:
    status = answer.status_code
    said = _error_message(answer.content)
    quoted = f"{what}: {status}" + (f" {said!r}" if said else "")
    if (wait_s := _rate_limit_wait_s(answer, said, now)) is not None:
        return TrackerUnavailable(f"{quoted}: too many requests, wait {wait_s:.0f} s", wait_s)
    # Another token may help, and then nothing is lost.
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        return TrackerUnavailable(
            f"{quoted}: the token is not known there, or may not do this", _WAIT_S
        )
    if status >= _BROKEN or status == _TIMED_OUT:
        return TrackerUnavailable(f"{quoted}: the tracker has trouble of its own")
    if status in MISSING:
        return TrackerRefused(f"{quoted}: it is not there, or the token may not see it")
    return TrackerRefused(quoted)


def _rate_limit_wait_s(answer: httpx.Response, said: str, now: datetime) -> float | None:
    """How long to wait, where a limit was hit; None: it is another no."""
    if answer.status_code not in {_FORBIDDEN, _TOO_MANY}:
        return None
    after = answer.headers.get("retry-after", "")
    if after.isdecimal():
        return max(1.0, float(after))
    if answer.headers.get("x-ratelimit-remaining") == "0":
        reset = answer.headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - now.timestamp()) if reset.isdecimal() else _WAIT_S
    return _WAIT_S if answer.status_code == _TOO_MANY or "rate limit" in said.lower() else None


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str = ""
    detail: str = ""


def _error_message(content: bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = msgspec.json.decode(content, type=_ErrorBody)
        return " ".join((said.message or said.detail).split())[:_MESSAGE_MAX]
    return ""
