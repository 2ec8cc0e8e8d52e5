"""Blobs in a cloud object store (S3, Azure), through `obstore`."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import AzureStore, S3Store

from gigafactory.domain.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, RetryConfig

PART_BYTES = 8 << 20
"""Larger blobs are uploaded in parts of this size; S3 accepts 10,000 parts."""
PARTS_AT_ONCE = 3
PIECE_BYTES = 4 << 20
"""Blobs are read in ranges of this size, so that a slow reader holds no connection."""
LISTED_AT_ONCE = 1000
MESSAGE_CHARS_MAX = 300

_STATUS = re.compile(r"status code: (\d+ [\w ]+)")
_WORDS = re.compile(r"<(?:Code|Message)>([^<\n]*)")

RETRY: "RetryConfig" = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


def client_options(endpoint: str | None) -> "ClientConfig":
    """Return the client options for an endpoint; plain HTTP only if its URL says so."""
    return {
        "allow_http": (endpoint or "").startswith("http://"),
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=60),
    }


class ObjectBlobs:
    """Stores every blob as an object; new blobs appear atomically."""

    def __init__(self, objects: S3Store | AzureStore, where: str) -> None:
        self._objects = objects
        self._where = where

    async def check(self) -> None:
        """Check that the store exists and grants access.

        Raises Unavailable.
        """
        with self._map_errors():
            # One page is enough; the store may be large.
            async for _ in self._objects.list(chunk_size=1):
                return

    async def put_new(self, key: str, data: bytes) -> bool:
        with self._map_errors():
            try:
                await self._objects.put_async(key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        head = bytearray()
        complete = True
        async for piece in pieces:
            head += piece
            if len(head) >= PART_BYTES:
                complete = False
                break
        with self._map_errors():
            if complete:
                await self._objects.put_async(key, bytes(head), use_multipart=False)
            else:
                await self._put_parts(key, head, pieces)

    async def _put_parts(self, key: str, head: bytearray, pieces: AsyncIterator[bytes]) -> None:
        async def whole_stream() -> AsyncIterator[bytes]:
            yield bytes(head)
            head.clear()
            async for piece in pieces:
                yield piece

        # If the pieces raise, this aborts the multipart upload and raises the same.
        await self._objects.put_async(
            key,
            whole_stream(),
            use_multipart=True,
            chunk_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        # Stores list whole folders: list the prefix's folder and filter.
        folder = prefix.rpartition("/")[0] or None
        sizes: dict[str, int] = {}
        with self._map_errors():
            pages = self._objects.list(folder, offset=after or None, chunk_size=LISTED_AT_ONCE)
            async for page in pages:
                sizes |= {each["path"]: each["size"] for each in page}
        return {key: sizes[key] for key in sorted(sizes) if key.startswith(prefix) and key > after}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        end = start + 1
        while start < end:
            piece, end = await self._read_range(key, start)
            start += len(piece)
            if not piece:
                return
            yield piece

    async def _read_range(self, key: str, start: int) -> tuple[bytes, int]:
        """Read one range from an offset; return its bytes and the blob's size."""
        with self._map_errors():
            try:
                response = await self._objects.get_async(
                    key, options={"range": (start, start + PIECE_BYTES)}
                )
                return bytes(await response.bytes_async()), response.meta["size"]
            except FileNotFoundError:
                raise NotFound("blob", key) from None
            except GenericError:
                # A range past the end, or of an empty blob, is an error: check the size.
                size = (await self._objects.head_async(key))["size"]
                if size > start:
                    raise
                return b"", size

    async def delete(self, prefix: str) -> int:
        keys = list(await self.sizes(prefix))
        with self._map_errors():
            try:
                if keys:
                    await self._objects.delete_async(keys)
            except FileNotFoundError:
                # Some were removed concurrently: delete one by one.
                for key in keys:
                    with suppress(FileNotFoundError):
                        await self._objects.delete_async(key)
        return len(keys)

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        """Map errors of the object store to Unavailable."""
        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise Unavailable(
                f"the blob store {self._where} is unavailable: {_summarize(error)}"
            ) from None


def _summarize(error: Exception) -> str:
    """Return the line of an error that helps an operator."""
    text = str(error).partition("\n\nDebug source")[0]
    if (status := _STATUS.search(text)) is None:
        return " ".join(text.split())[:MESSAGE_CHARS_MAX]
    return " ".join([status[1], *_WORDS.findall(text)])[:MESSAGE_CHARS_MAX]


if TYPE_CHECKING:
    from obstore.store import S3Config


def s3_blobs(
    bucket: str, prefix: str, *, endpoint: str | None = None, config: "S3Config | None" = None
) -> ObjectBlobs:
    """Open the blobs below a prefix; settings missing in `config` come from AWS_… variables."""
    store = S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRY,
    )
    return ObjectBlobs(store, f"s3://{bucket}/{prefix}")


def azure_blobs(
    container: str, prefix: str, *, endpoint: str | None = None, config: "AzureConfig | None" = None
) -> ObjectBlobs:
    """Open the blobs below a prefix; settings missing in `config` come from AZURE_… variables."""
    store = AzureStore(
        container,
        prefix=prefix or None,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRY,
    )
    return ObjectBlobs(store, f"az://{container}/{prefix}")
