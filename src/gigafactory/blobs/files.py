"""Blobs as files below one folder."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from gigafactory.domain.errors import NotFound

PIECE_BYTES = 1 << 16


class FileBlobs:
    """Every blob is a file; a new one appears whole or not at all."""

    def __init__(self, root: Path) -> None:
        """Keep files below this folder, which is made when it is needed."""
        self._root = root

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        assert path.is_relative_to(self._root.resolve()), f"a key that leaves the folder: {key}"
        return path

    async def put_new(self, key: str, data: bytes) -> bool:
        """See the port."""
        return await asyncio.to_thread(self._put_new, self._path(key), data)

    def _put_new(self, path: Path, data: bytes) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            # A link, unlike a rename, refuses to replace what is there.
            os.link(name, path)
        except FileExistsError:
            return False
        finally:
            Path(name).unlink()
        return True

    async def sizes(self, prefix: str) -> Mapping[str, int]:
        """See the port."""
        return await asyncio.to_thread(self._sizes, prefix)

    def _sizes(self, prefix: str) -> Mapping[str, int]:
        folder = self._path(prefix) if prefix.endswith("/") else self._path(prefix).parent
        if not folder.is_dir():
            return {}
        found = {
            str(path.relative_to(self._root.resolve())): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
        return {key: size for key, size in found.items() if key.startswith(prefix)}

    async def read(self, key: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """See the port."""
        try:
            file = await asyncio.to_thread(self._path(key).open, "rb")
        except FileNotFoundError:
            raise NotFound("blob", key) from None
        with file:
            file.seek(start)
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece

    async def delete(self, prefix: str) -> int:
        """See the port."""
        keys = await self.sizes(prefix)
        for key in keys:
            await asyncio.to_thread(self._path(key).unlink, missing_ok=True)
        if prefix.endswith("/"):
            await asyncio.to_thread(shutil.rmtree, self._path(prefix), ignore_errors=True)
        return len(keys)
