"""Scripts, styles and pictures, with URLs that browsers can cache forever."""

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.domain.errors import NotFound

TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
CACHE_FOREVER = b"public, max-age=31536000, immutable"


@lru_cache(maxsize=1)
def _contents() -> dict[str, bytes]:
    folder = files("gigafactory.web") / "static"
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in TYPES
    }


@lru_cache(maxsize=100)
def static_url(name: str) -> str:
    """Return the URL of a static file; it changes with the content."""
    return f"/static/{_version()}/{name}"


@lru_cache(maxsize=1)
def _version() -> str:
    """Hash all files together: scripts import each other by relative name."""
    digest = hashlib.sha256()
    for name, content in sorted(_contents().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


@lru_cache(maxsize=100)
def _gzipped(name: str) -> bytes:
    return gzip.compress(_contents()[name], 9, mtime=0)


@get("/static/{version:str}/{name:str}")
async def static_file(request: ApiRequest) -> ASGIApp:
    """Send a static file."""
    name: str = request.scope["path_params"]["name"]
    if name not in _contents():
        raise NotFound("file", name[:100])
    gzipped = b"gzip" in (request.header(b"accept-encoding") or b"")
    body = _gzipped(name) if gzipped else _contents()[name]
    encoded = ((b"content-encoding", b"gzip"),) if gzipped else ()
    headers = ((b"vary", b"accept-encoding"), *encoded)
    media_type = TYPES[name.rpartition(".")[2]]
    return HttpResponse(200, body, media_type=media_type, headers=headers, cache=CACHE_FOREVER)


ROUTES = (static_file,)
