"""Blobs as local files."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from gigafactory.domain.errors import NotFound
from gigafactory.system.atomic_file import sync_folder
from gigafactory.system.threads import open_in_thread

PIECE_BYTES = 1 << 16
PARTIAL_SUFFIX = ".begun"
"""Suffix of the hidden file that holds an unfinished blob."""
DURABLE_FOLDERS_MAX = 10_000

Sync = Callable[[int], None]
"""Makes the content of an open file or folder survive a power cut."""


class FileBlobs:
    """Stores every blob as a file below one folder; new blobs appear atomically and stay."""

    def __init__(self, root: Path, *, sync: Sync = os.fsync) -> None:
        self._root = root
        self._sync = sync
        self._durable_folders: set[Path] = set()
        """Folders whose own names are known to survive a power cut."""

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        assert path.is_relative_to(self._root.resolve()), f"the key leaves the folder: {key}"
        return path

    async def put_new(self, key: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._put_new, self._path(key), data)

    def _put_new(self, path: Path, data: bytes) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                self._sync_file(file)
            # Unlike a rename, a link refuses to replace an existing file.
            os.link(name, path)
        except FileExistsError:
            # The caller may acknowledge what another one, or a killed process, has just stored.
            self._sync_name(path)
            return False
        finally:
            Path(name).unlink()
        self._sync_name(path)
        return True

    async def put_stream(self, key: str, pieces: AsyncIterator[bytes]) -> None:
        path = self._path(key)
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
        try:
            with await open_in_thread(partial.open, "xb") as file:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
                await asyncio.to_thread(self._sync_file, file)
            await asyncio.to_thread(self._publish, partial, path)
        finally:
            partial.unlink(missing_ok=True)

    def _publish(self, partial: Path, path: Path) -> None:
        os.link(partial, path)
        self._sync_name(path)

    def _sync_file(self, file: IO[bytes]) -> None:
        file.flush()
        self._sync(file.fileno())

    def _sync_name(self, path: Path) -> None:
        """Make the name of a new file survive a power cut, and those of new folders above it."""
        folder, top = path.parent, self._root.resolve().parent
        sync_folder(folder, self._sync)
        if folder in self._durable_folders:
            return
        for above in folder.parents:
            if above.is_relative_to(top):
                sync_folder(above, self._sync)
        if len(self._durable_folders) >= DURABLE_FOLDERS_MAX:
            self._durable_folders.clear()
        self._durable_folders.add(folder)

    async def sizes(self, prefix: str, *, after: str = "") -> Mapping[str, int]:
        sizes = await asyncio.to_thread(self._sizes, prefix)
        return {key: size for key, size in sizes.items() if key > after}

    def _sizes(self, prefix: str) -> Mapping[str, int]:
        folder = self._path(prefix) if prefix.endswith("/") else self._path(prefix).parent
        root = self._root.resolve()
        sizes = {}
        for above, _, names in os.walk(folder):
            for path in (Path(above, name) for name in names if not name.startswith(".")):
                # The file may have been removed meanwhile.
                with suppress(FileNotFoundError):
                    sizes[str(path.relative_to(root))] = path.stat().st_size
        return {key: sizes[key] for key in sorted(sizes) if key.startswith(prefix)}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        try:
            file = await open_in_thread(self._path(key).open, "rb")
        except FileNotFoundError:
            raise NotFound("blob", key) from None
        with file:
            file.seek(start)
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece

    async def delete(self, prefix: str) -> int:
        keys = await self.sizes(prefix)
        for key in keys:
            await asyncio.to_thread(self._path(key).unlink, missing_ok=True)
        if prefix.endswith("/"):
            await asyncio.to_thread(shutil.rmtree, self._path(prefix), ignore_errors=True)
        else:
            await asyncio.to_thread(_remove_partial, self._path(prefix))
        return len(keys)


def _remove_partial(path: Path) -> None:
    """Remove files that a crash left unfinished."""
    for partial in path.parent.glob(f".*{PARTIAL_SUFFIX}"):
        if partial.name[1:].startswith(path.name):
            partial.unlink(missing_ok=True)
