"""Downloads of untrusted files: as attachments that a browser never runs."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import structlog
from litestar.types import Receive, Scope, Send

from gigafactory.domain.errors import RangeNotSatisfiable
from gigafactory.domain.job.artifact import Artifact

log = structlog.get_logger()

# An uploaded HTML page gets no scripts, no forms, no access to this origin, and no frame.
_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"


def etag(artifact: Artifact) -> bytes:
    """Return the ETag of a file."""
    return f'"{artifact.sha256}"'.encode()


class Download:
    """A streamed artifact, or a range of it."""

    def __init__(
        self,
        artifact: Artifact,
        first: bytes,
        pieces: AsyncIterator[bytes],
        part: tuple[int, int] | None,
    ) -> None:
        """Send `first`, then `pieces`, up to the end of the range."""
        self._artifact = artifact
        self._first = first
        self._pieces = pieces
        self._part = part

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it; a damaged file is never completed."""
        start, end = self._part or (0, self._artifact.size)
        status = 200 if self._part is None else 206
        await send({"type": "http.response.start", "status": status, "headers": self._headers()})
        left, digest = end - start, hashlib.sha256()
        unsent = b""
        async for piece in self._all():
            if unsent:
                await send({"type": "http.response.body", "body": unsent, "more_body": True})
            unsent = piece[:left]
            left -= len(unsent)
            digest.update(unsent)
            if left == 0:
                break
        damaged = left or (self._part is None and digest.hexdigest() != self._artifact.sha256)
        if damaged:
            log.error("artifact damaged", artifact=self._artifact.id, missing=left)
            return
        await send({"type": "http.response.body", "body": unsent, "more_body": False})

    async def _all(self) -> AsyncIterator[bytes]:
        yield self._first
        async for piece in self._pieces:
            yield piece

    def _headers(self) -> list[tuple[bytes, bytes]]:
        artifact = self._artifact
        start, end = self._part or (0, artifact.size)
        name = artifact.name.rpartition("/")[2]
        digest = base64.b64encode(bytes.fromhex(artifact.sha256))
        headers = [
            (b"content-type", artifact.media_type.encode()),
            (b"content-length", b"%d" % (end - start)),
            (b"content-disposition", f"attachment; filename*=UTF-8''{quote(name)}".encode()),
            (b"content-security-policy", _POLICY),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"private, no-store"),
            (b"accept-ranges", b"bytes"),
            (b"etag", etag(artifact)),
            (b"repr-digest", b"sha-256=:%s:" % digest),
        ]
        if self._part is not None:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, artifact.size)))
        return headers


_RANGE = re.compile(rb"bytes=[ \t]*([0-9]{0,15})-([0-9]{0,15})[ \t]*", re.IGNORECASE)


def parse_range(header: bytes | None, size: int) -> tuple[int, int] | None:
    """Parse a Range header to start and end; None if the header is to be ignored.

    Headers with several ranges, another unit or an invalid range are ignored.
    Raises RangeNotSatisfiable for a range without any byte of the file.
    """
    match = _RANGE.fullmatch(header or b"")
    if match is None or match[1] == match[2] == b"":
        return None
    if match[1] == b"":
        start, end = max(0, size - int(match[2])), size
    else:
        start, last = int(match[1]), int(match[2] or size)
        if match[2] and last < start:
            return None
        end = min(size, last + 1)
    if start >= end:
        raise RangeNotSatisfiable(size)
    return start, end
