"""The inbox of `aq up`: submits job files that are dropped there."""

import asyncio
import hashlib
import os
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
        ages = sorted((at, path) for path in files if (at := _changed_at(path)) is not None)
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
            self._refuse(path, refused)
        except FileNotFoundError:
            log.info("inbox file is gone", file=path.name)
        except Exception as error:
            # One file never stops the others.
            log.exception("inbox file failed", file=path.name)
            fault = Fault("", f"an unexpected error occurred: {type(error).__name__}: {error}")
            self._refuse(path, Invalid("the job file", [fault]))
        else:
            _move(path, self._taken)
            log.info("submitted", file=path.name, job=job.name, id=job.id)

    def _refuse(self, path: Path, refused: Refused) -> None:
        put = _move(path, self._refused)
        text = _error_text(refused)
        put.with_suffix(".errors.txt").write_text(text, encoding="utf-8", errors="replace")
        log.warning("refused", file=str(put), reason=refused.detail)


def _read(path: Path) -> tuple[bytes, str]:
    """Return the content of a file and an idempotency key for it."""
    name = os.fsencode(path.name)
    if name.decode(errors="replace") != path.name:
        raise Invalid("the job file", [Fault("", "its name is not in UTF-8; rename it")])
    status = path.stat()
    if status.st_size > BYTES_MAX:
        fault = Fault("", f"has {status.st_size} bytes; the maximum is {BYTES_MAX}")
        raise Invalid("the job file", [fault])
    try:
        data = path.read_bytes()
    except PermissionError as error:
        fault = Fault("", f"cannot be read: {error.strerror}; fix its permissions")
        raise Invalid("the job file", [fault]) from None
    digest = hashlib.sha256(os.fsencode(path) + f"\0{status.st_mtime_ns}\0".encode() + data)
    return data, f"drop-{digest.hexdigest()}"


def _changed_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


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
