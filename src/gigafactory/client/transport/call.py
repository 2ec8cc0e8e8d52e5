"""Description of one API request: content, response type, retries."""

import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from gigafactory.client.transport.headers import ROOT, common_headers
from gigafactory.client.transport.problems import ConnectionBroken, ServerFailed, parse_refusal
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.wire.fields import RequestDoc

T = TypeVar("T")

RETRY_DELAYS_S = (0.2, 0.5, 1.0)
"""Delays before each retry of a request without a response."""
UNAVAILABLE = 503
ERRORS = 400


class UploadSource(Protocol):
    """Bytes to upload, readable more than once; the server checks their hash."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def sha256(self) -> str:
        """The hash of the content, in hexadecimal."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the content from the beginning.

        Raises OSError.
        """


class ApiCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A request for either client, with the type of its response."""

    method: str
    path: str
    response_type: type[T]
    query: RequestDoc | None = None
    body: bytes | None = None
    file: UploadSource | None = None
    """Streamed instead of `body`."""
    content_type: str = "application/json"
    product: str | None = None
    """Product of this call; default: the client's."""
    idempotency_key: str | None = None
    """Set if a later process may retry the call; default: a random key."""
    repeatable: bool = True
    """False if the response contains a secret, which is given only once."""

    @property
    def target(self) -> str:
        """The path and query of the request line."""
        parameters: dict[str, object] = msgspec.to_builtins(self.query) if self.query else {}
        pairs = [(name, _text(value)) for name, value in parameters.items() if value != ""]
        return self.path + (f"?{urlencode(pairs)}" if pairs else "")

    def headers(self, token: str | None, product: str | None, key: str) -> dict[str, str]:
        """Return the request headers for a token, product and idempotency key."""
        headers = common_headers(token, self.product or product)
        if self.body is not None or self.file is not None:
            headers["content-type"] = self.content_type
        if self.file is not None:
            headers["content-length"] = str(self.file.size)
        if self.method != "GET":
            headers["idempotency-key"] = key
        return headers

    def decode(self, body: bytes) -> T:
        """Decode a response body; an empty one is None.

        Raises ServerFailed for a body that no coordinator sends.
        """
        if self.response_type is bytes:
            return cast("T", body)
        try:
            return msgspec.json.decode(body or b"null", type=self.response_type)
        except msgspec.DecodeError as error:
            message = (
                f"the response cannot be read: {error}; check that the address is that of a"
                " coordinator, and that it has the version of this program"
            )
            raise ServerFailed(message) from error


class Reply(msgspec.Struct, frozen=True):
    """A response: status, body, headers."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def require_ok(self) -> "Reply":
        """Return this reply if it is no error.

        Raises Refused: the error of the coordinator.
        """
        if self.status >= ERRORS:
            raise parse_refusal(self.status, self.body)
        return self


class Wait(msgspec.Struct, frozen=True):
    """A delay before the next attempt."""

    seconds: float


CallSteps = Generator[str | Wait, Reply | ConnectionBroken | None, Reply]
"""Yields an idempotency key to send the request with, or a Wait; receives the outcome."""


def call_steps(call: ApiCall[T], retry_delays: Sequence[float] = RETRY_DELAYS_S) -> CallSteps:
    """Drive a call to its response, with retries, independent of the transport.

    Raises Refused: the error of the coordinator, or Unavailable when the retries are exhausted.
    """
    key = call.idempotency_key or uuid.uuid4().hex
    for delay in (*retry_delays, None):
        reply = yield key
        assert reply is not None, "an attempt has an outcome"
        failure = _transient_failure(reply)
        if failure is None and isinstance(reply, Reply):
            return reply.require_ok()
        if delay is None or not call.repeatable:
            assert failure is not None
            raise failure
        yield Wait(delay)
    raise AssertionError


def _transient_failure(reply: Reply | ConnectionBroken) -> Refused | None:
    """Return the refusal that a retry may solve, or None."""
    if isinstance(reply, ConnectionBroken):
        return reply
    if reply.status == UNAVAILABLE:
        refusal = parse_refusal(reply.status, reply.body)
        return refusal if isinstance(refusal, Unavailable) else Unavailable(refusal.detail)
    return None


def path(*parts: str) -> str:
    """Return the path of a resource with each part percent-encoded."""
    return "/".join((ROOT, *(quote(part, safe="") for part in parts)))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
