"""The inbox of `aq up`: a job file that is dropped there is handed in, and put away."""

import asyncio
import hashlib
import time
from pathlib import Path

import structlog
from msgspec.structs import replace

from gigafactory.client.submissions import submit
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Fault, Invalid, Refused, TooManyRequests, Unavailable
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.system.loops import every

LOOKS_EVERY_S = 0.5
SETTLED_S = 0.3
"""A file that was written to this moment may not be whole yet."""
BYTES_MAX = 4 * 1024 * 1024

log = structlog.get_logger()


class DropFolder:
    """A folder that people put job files into."""

    def __init__(self, folder: Path, client: AsyncClient) -> None:
        """Hand in through this client."""
        self._folder = folder
        self._client = client
        self._taken = folder / "taken"
        self._refused = folder / "refused"

    async def watch(self) -> None:
        """Hand in whatever is dropped, for ever."""
        await every(LOOKS_EVERY_S, self.look, name="inbox")

    async def look(self) -> None:
        """Hand in what lies there now, the oldest first; what has to wait stays."""
        for folder in (self._taken, self._refused):
            folder.mkdir(parents=True, exist_ok=True)
        for path in await asyncio.to_thread(self._waiting):
            try:
                await self._hand_in(path)
            except (Unavailable, TooManyRequests) as away:
                log.warning("inbox waits", file=path.name, reason=away.detail)
                return

    def _waiting(self) -> list[Path]:
        # A link that leads nowhere, or a folder, is no file, and hinders none.
        files = (path for path in self._folder.glob("*.md") if path.is_file())
        ages = sorted((path.stat().st_mtime, path) for path in files)
        return [path for at, path in ages if at <= time.time() - SETTLED_S]

    async def _hand_in(self, path: Path) -> None:
        try:
            data, key = await asyncio.to_thread(_read, path)
            job = await self._client.send(
                replace(submit(parse_job_file(data, stem=path.stem)), key=key)
            )
        except (Unavailable, TooManyRequests):
            raise
        except Refused as refused:
            put = _moved(path, self._refused)
            put.with_suffix(".errors.txt").write_text(_words(refused), encoding="utf-8")
            log.warning("refused", file=str(put), reason=refused.detail)
        else:
            _moved(path, self._taken)
            log.info("handed in", file=path.name, job=job.name, id=job.id)


def _read(path: Path) -> tuple[bytes, str]:
    """What a file says, and a key by which a later start knows that it was handed in already."""
    found = path.stat()
    if found.st_size > BYTES_MAX:
        fault = Fault("", f"has {found.st_size} bytes; at most {BYTES_MAX} are read")
        raise Invalid("the job file", [fault])
    try:
        data = path.read_bytes()
    except PermissionError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; let its owner allow it")
        raise Invalid("the job file", [fault]) from None
    told = hashlib.sha256(f"{path}\0{found.st_mtime_ns}\0".encode() + data)
    return data, f"drop-{told.hexdigest()}"


def _words(refused: Refused) -> str:
    faults = refused.faults if isinstance(refused, Invalid) else ()
    return "".join(f"{line}\n" for line in ([str(fault) for fault in faults] or [refused.detail]))


def _moved(path: Path, folder: Path) -> Path:
    """Move a file at once, never over another one."""
    wanted, number = folder / path.name, 2
    while wanted.exists():
        wanted, number = folder / f"{path.stem}-{number}{path.suffix}", number + 1
    return path.rename(wanted)


async def serve_inbox(folder: Path, url: str, token: str | None) -> None:
    """Hand in to the coordinator at this address, until cancelled."""
    async with AsyncClient(url, token) as client:
        await DropFolder(folder, client).watch()
