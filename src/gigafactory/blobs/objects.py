"""Blobs as objects of a store in the cloud, through `obstore`."""

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
"""What is longer goes up in parts of this size, of which S3 takes ten thousand."""
PARTS_AT_ONCE = 3
PIECE_BYTES = 4 << 20
"""Bytes are read in ranges of this size, so that a slow reader holds no connection."""
LISTED_AT_ONCE = 1000
MESSAGE_CHARS_MAX = 300

_STATUS = re.compile(r"status code: (\d+ [\w ]+)")
_WORDS = re.compile(r"<(?:Code|Message)>([^<\n]*)")

RETRY: "RetryConfig" = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


def client_options(endpoint: str | None) -> "ClientConfig":
    """How to reach an endpoint; without encryption only where its address says so."""
    return {
        "allow_http": (endpoint or "").startswith("http://"),
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=60),
    }


class ObjectBlobs:
    """Every blob is an object; a new one appears whole or not at all."""

    def __init__(self, objects: S3Store | AzureStore, where: str) -> None:
        self._objects = objects
        self._where = where

    async def check(self) -> None:
        """Look whether it is there, and lets us in.

        Raises Unavailable.
        """
        with self._map_errors():
            # The store may be large, and one page says enough.
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
        begun = bytearray()
        ended = True
        async for piece in pieces:
            begun += piece
            if len(begun) >= PART_BYTES:
                ended = False
                break
        with self._map_errors():
            if ended:
                await self._objects.put_async(key, bytes(begun), use_multipart=False)
            else:
                await self._put_parts(key, begun, pieces)

    async def _put_parts(self, key: str, head: bytearray, pieces: AsyncIterator[bytes]) -> None:
        async def everything() -> AsyncIterator[bytes]:
            yield bytes(head)
            head.clear()
            async for piece in pieces:
                yield piece

        # When the pieces raise, this does, once the parts that are there have been given up.
        await self._objects.put_async(
            key,
            everything(),
            use_multipart=True,
            chunk_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        # A store is listed by folders: what begins so is looked for in the folder that it is in.
        folder = prefix.rpartition("/")[0] or None
        found: dict[str, int] = {}
        with self._map_errors():
            pages = self._objects.list(folder, offset=after or None, chunk_size=LISTED_AT_ONCE)
            async for page in pages:
                found |= {each["path"]: each["size"] for each in page}
        return {key: found[key] for key in sorted(found) if key.startswith(prefix) and key > after}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        end = start + 1
        while start < end:
            piece, end = await self._read_range(key, start)
            start += len(piece)
            if not piece:
                return
            yield piece

    async def _read_range(self, key: str, start: int) -> tuple[bytes, int]:
        """The bytes from an offset on, as many as one request brings, and the blob's size."""
        with self._map_errors():
            try:
                found = await self._objects.get_async(
                    key, options={"range": (start, start + PIECE_BYTES)}
                )
                return bytes(await found.bytes_async()), found.meta["size"]
            except FileNotFoundError:
                raise NotFound("blob", key) from None
            except GenericError:
                # There is no range after the end, and none at all of nothing.
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
                # Somebody else removes them too.
                for key in keys:
                    with suppress(FileNotFoundError):
                        await self._objects.delete_async(key)
        return len(keys)

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        """Have whatever goes wrong over there told as what it means here."""
        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise Unavailable(
                f"the blobs at {self._where} cannot be used: {_summarize(error)}"
            ) from None


def _summarize(error: Exception) -> str:
    """The one line of an error that a person can act on."""
    told = str(error).partition("\n\nDebug source")[0]
    if (status := _STATUS.search(told)) is None:
        return " ".join(told.split())[:MESSAGE_CHARS_MAX]
    return " ".join([status[1], *_WORDS.findall(told)])[:MESSAGE_CHARS_MAX]


if TYPE_CHECKING:
    from obstore.store import S3Config


def s3_blobs(
    bucket: str, prefix: str, *, endpoint: str | None = None, config: "S3Config | None" = None
) -> ObjectBlobs:
    """The blobs below a prefix; what `config` does not say, the AWS_… variables do."""
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
    """The blobs below a prefix; what `config` does not say, the AZURE_… variables do."""
    store = AzureStore(
        container,
        prefix=prefix or None,
        config=config,
        client_options=client_options(endpoint),
        retry_config=RETRY,
    )
    return ObjectBlobs(store, f"az://{container}/{prefix}")
