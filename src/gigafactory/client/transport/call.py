"""One request, described: what is sent, what its answer is read as, and when it is sent again."""

import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from gigafactory.client.transport.headers import ROOT, introduction
from gigafactory.client.transport.problems import ConnectionBroken, parse_refusal
from gigafactory.domain.errors import Refused, Unavailable

T = TypeVar("T")

RETRY_DELAYS_S = (0.2, 0.5, 1.0)
"""Seconds to wait before each repetition of a request that got no answer."""
UNAVAILABLE = 503
ERRORS = 400

Query = Mapping[str, str | int | bool | Sequence[str] | None]


class UploadSource(Protocol):
    """Bytes that can be sent more than once; whoever takes them compares the hash."""

    @property
    def size(self) -> int:
        """How many there are."""

    @property
    def sha256(self) -> str:
        """The hash of all of them."""

    def pieces(self) -> Iterator[bytes]:
        """All of them, from the beginning.

        Raises OSError.
        """


class ApiCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A request that either client can send; its answer is read as `answer`."""

    method: str
    path: str
    response_type: type[T]
    query: Query = {}
    body: bytes | None = None
    file: UploadSource | None = None
    """Sent in place of a body, piece by piece."""
    content_type: str = "application/json"
    product: str | None = None
    """The product that this call is about, where it differs from the client's own."""
    idempotency_key: str | None = None
    """The idempotency key, where a repetition may come from a later start of the program."""
    repeatable: bool = True
    """False for an answer that shows a secret: it is never given twice."""

    @property
    def target(self) -> str:
        """The path and the query as they stand in the first line of the request."""
        given = [(key, value) for key, value in self.query.items() if value not in (None, "", ())]
        pairs = [(key, _text(each)) for key, value in given for each in _each(value)]
        return self.path + (f"?{urlencode(pairs)}" if pairs else "")

    def headers(self, token: str | None, product: str | None, key: str) -> dict[str, str]:
        """The headers for one caller, with the key that makes a repetition harmless."""
        headers = introduction(token, self.product or product)
        if self.body is not None or self.file is not None:
            headers["content-type"] = self.content_type
        if self.file is not None:
            headers["content-length"] = str(self.file.size)
        if self.method != "GET":
            headers["idempotency-key"] = key
        return headers

    def decode(self, body: bytes) -> T:
        """The answer as a record; no body is None, for calls that may answer nothing."""
        if self.response_type is bytes:
            return cast("T", body)
        return msgspec.json.decode(body or b"null", type=self.response_type)


class Reply(msgspec.Struct, frozen=True):
    """What came back over the wire."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    def require_ok(self) -> "Reply":
        """This, when it is a good answer.

        Raises the refusal that the coordinator named.
        """
        if self.status >= ERRORS:
            raise parse_refusal(self.status, self.body)
        return self


class Wait(msgspec.Struct, frozen=True):
    """A pause before the next attempt."""

    seconds: float


CallSteps = Generator[str | Wait, Reply | ConnectionBroken | None, Reply]
"""Asks to send the request under an idempotency key, or to wait; is told what came of it."""


def call_steps(call: ApiCall[T], patience: Sequence[float] = RETRY_DELAYS_S) -> CallSteps:
    """How a call goes on until it is answered, whoever carries the bytes.

    Raises Refused: as the coordinator said it, or Unavailable when all patience was in vain.
    """
    key = call.idempotency_key or uuid.uuid4().hex
    for delay in (*patience, None):
        reply = yield key
        assert reply is not None, "an attempt has an outcome"
        failure = _passing(reply)
        if failure is None and isinstance(reply, Reply):
            return reply.require_ok()
        if delay is None or not call.repeatable:
            assert failure is not None
            raise failure
        yield Wait(delay)
    raise AssertionError


def _passing(reply: Reply | ConnectionBroken) -> Refused | None:
    """The trouble that may be over in a moment, if this is one."""
    if isinstance(reply, ConnectionBroken):
        return reply
    if reply.status == UNAVAILABLE:
        found = parse_refusal(reply.status, reply.body)
        return found if isinstance(found, Unavailable) else Unavailable(found.detail)
    return None


def path(*parts: str) -> str:
    """The path of a resource, each part made safe."""
    return "/".join((ROOT, *(quote(part, safe="") for part in parts)))


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
