"""Responses as small ASGI applications with encoded bytes.

Litestar's own responses take several times as long, which matters on hot paths.
"""

import msgspec
from litestar.types import Receive, Scope, Send

from gigafactory.wire.fields import encode_hook

JSON = b"application/json"
Headers = tuple[tuple[bytes, bytes], ...]

encode = msgspec.json.Encoder(enc_hook=encode_hook).encode


class HttpResponse:
    """A complete response."""

    __slots__ = ("body", "cache", "headers", "media_type", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        media_type: bytes = JSON,
        headers: Headers = (),
        cache: bytes = b"no-store",
    ) -> None:
        self.status = status
        self.body = body
        self.media_type = media_type
        self.headers = headers
        self.cache = cache

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        size = str(len(self.body)).encode()
        headers = [
            (b"content-type", self.media_type),
            (b"content-length", size),
            (b"cache-control", self.cache),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class NoContent:
    """The 204 response."""

    __slots__ = ()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


NO_CONTENT = NoContent()


def json_response(value: object, status: int = 200) -> HttpResponse:
    """Return a JSON response with a record."""
    return HttpResponse(status, encode(value))
