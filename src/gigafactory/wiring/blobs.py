"""Open the blob storage of a URL."""

import os
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.core.ports import Blobs
from gigafactory.domain.errors import Fault, Invalid, Unavailable

KINDS = "file:///…, s3://bucket/prefix or az://container/prefix"
S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
AZURE_ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")


async def open_blobs(url: str) -> Blobs:
    """Open the blob storage of a URL and check access.

    Raise Invalid for an unsupported URL, Unavailable without access.
    """
    match urlsplit(url).scheme:
        case "file":
            return FileBlobs(url_path(url))
        case "s3" | "az" | "azure":
            return await _open_object_store(urlsplit(url))
        case scheme:
            raise _refusal(f"found {scheme or url!r}; expected {KINDS}")


async def _open_object_store(url: SplitResult) -> Blobs:
    if "@" in url.netloc or url.query or url.fragment:
        # Do not repeat the URL: it may contain a secret.
        raise _refusal(
            f"must contain only scheme, bucket and prefix ({KINDS}); put credentials in variables"
        )
    if not url.netloc:
        raise _refusal(f"names no bucket or container; expected {KINDS}")
    prefix = unquote(url.path).strip("/")
    if not {"", ".", ".."}.isdisjoint(prefix.split("/")) and prefix:
        raise _refusal(f"found the prefix {prefix!r}; expected names separated by single slashes")
    try:
        from gigafactory.blobs.objects import azure_blobs, s3_blobs
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        extra = "s3" if url.scheme == "s3" else "azure"
        raise Unavailable(
            f"blobs at {url.scheme}:// need an extra: pip install 'gigafactory[{extra}]'"
        ) from None
    if url.scheme == "s3":
        blobs = s3_blobs(url.netloc, prefix, endpoint=_first_set(S3_ENDPOINTS))
    else:
        blobs = azure_blobs(url.netloc, prefix, endpoint=_first_set(AZURE_ENDPOINTS))
    await blobs.check()
    return blobs


def _first_set(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _refusal(message: str) -> Invalid:
    return Invalid("the configuration", [Fault("blobs", message)])


def url_path(url: str) -> Path:
    """Return the path of a URL such as `sqlite:///a/b`; four slashes mean the same."""
    path = "/" + unquote(url.partition("://")[2]).lstrip("/")
    # On Windows the URL of C:\\a is sqlite:///C:/a.
    return Path(path[1:] if path[2:3] == ":" else path)
