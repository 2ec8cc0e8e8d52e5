"""Which home of bytes an address means."""

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
    """The blobs at an address, which was asked whether it lets us in.

    Raises Invalid for an address that nothing serves, Unavailable.
    """
    match urlsplit(url).scheme:
        case "file":
            return FileBlobs(path_of(url))
        case "s3" | "az" | "azure":
            return await _objects(urlsplit(url))
        case scheme:
            raise _refusal(f"found {scheme or url!r}; expected {KINDS}")


async def _objects(url: SplitResult) -> Blobs:
    if "@" in url.netloc or url.query or url.fragment:
        # It is not repeated here, since it may hold a secret.
        raise _refusal(f"it says more than where; expected {KINDS}, and the rest in variables")
    if not url.netloc:
        raise _refusal(f"it names no bucket or container; expected {KINDS}")
    prefix = unquote(url.path).strip("/")
    if not {"", ".", ".."}.isdisjoint(prefix.split("/")) and prefix:
        raise _refusal(
            f"found the prefix {prefix!r}; expected names with single slashes between them"
        )
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
        blobs = s3_blobs(url.netloc, prefix, endpoint=_variable(S3_ENDPOINTS))
    else:
        blobs = azure_blobs(url.netloc, prefix, endpoint=_variable(AZURE_ENDPOINTS))
    await blobs.check()
    return blobs


def _variable(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _refusal(message: str) -> Invalid:
    return Invalid("the configuration", [Fault("blobs", message)])


def path_of(url: str) -> Path:
    """The path of `sqlite:///a/b`; four slashes, as some write them, mean the same."""
    path = "/" + unquote(url.partition("://")[2]).lstrip("/")
    # On Windows the address of C:\\a is sqlite:///C:/a.
    return Path(path[1:] if path[2:3] == ":" else path)
