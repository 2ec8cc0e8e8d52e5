"""The inbox of `aq up`: submits job files that are dropped there."""

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
from gigafactory.system.loops import run_every

SCAN_EVERY_S = 0.5
SETTLED_S = 0.3
"""A file that was changed more recently may be incomplete."""
BYTES_MAX = 4 * 1024 * 1024

log = structlog.get_logger()


class InboxWatcher:
    """Submits job files from a folder and moves them to `taken/` or `refused/`."""

    def __init__(self, folder: Path, client: AsyncClient) -> None:
        self._folder = folder
        self._client = client
        self._taken = folder / "taken"
        self._refused = folder / "refused"

    async def watch(self) -> None:
        """Submit new files until cancelled."""
        await run_every(SCAN_EVERY_S, self.submit_files, name="inbox")

    async def submit_files(self) -> None:
        """Submit the present files, oldest first; keep those that must wait."""
        for folder in (self._taken, self._refused):
            folder.mkdir(parents=True, exist_ok=True)
        for path in await asyncio.to_thread(self._complete_files):
            try:
                await self._submit(path)
            except (Unavailable, TooManyRequests) as unavailable:
                log.warning("inbox is waiting", file=path.name, reason=unavailable.detail)
                return

    def _complete_files(self) -> list[Path]:
        # Skip broken links and folders.
        files = (path for path in self._folder.glob("*.md") if path.is_file())
        ages = sorted((path.stat().st_mtime, path) for path in files)
        return [path for at, path in ages if at <= time.time() - SETTLED_S]

    async def _submit(self, path: Path) -> None:
        try:
            data, key = await asyncio.to_thread(_read, path)
            job = await self._client.send(
                replace(submit(parse_job_file(data, stem=path.stem)), idempotency_key=key)
            )
        except (Unavailable, TooManyRequests):
            raise
        except Refused as refused:
            put = _move(path, self._refused)
            put.with_suffix(".errors.txt").write_text(_error_text(refused), encoding="utf-8")
            log.warning("refused", file=str(put), reason=refused.detail)
        else:
            _move(path, self._taken)
            log.info("submitted", file=path.name, job=job.name, id=job.id)


def _read(path: Path) -> tuple[bytes, str]:
    """Return the content of a file and an idempotency key for it."""
    found = path.stat()
    if found.st_size > BYTES_MAX:
        fault = Fault("", f"has {found.st_size} bytes; the maximum is {BYTES_MAX}")
        raise Invalid("the job file", [fault])
    try:
        data = path.read_bytes()
    except PermissionError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; fix its permissions")
        raise Invalid("the job file", [fault]) from None
    digest = hashlib.sha256(f"{path}\0{found.st_mtime_ns}\0".encode() + data)
    return data, f"drop-{digest.hexdigest()}"


def _error_text(refused: Refused) -> str:
    faults = refused.faults if isinstance(refused, Invalid) else ()
    return "".join(f"{line}\n" for line in ([str(fault) for fault in faults] or [refused.detail]))


def _move(path: Path, folder: Path) -> Path:
    """Move a file without overwriting another one."""
    wanted, number = folder / path.name, 2
    while wanted.exists():
        wanted, number = folder / f"{path.stem}-{number}{path.suffix}", number + 1
    return path.rename(wanted)


async def serve_inbox(folder: Path, url: str, token: str | None) -> None:
    """Watch a folder and submit its files until cancelled."""
    async with AsyncClient(url, token) as client:
        await InboxWatcher(folder, client).watch()
