"""Outbox: reports for the coordinator, stored on disk before they are sent in order."""

import contextlib
import uuid
from pathlib import Path
from typing import Any

import msgspec
import structlog

from gigafactory.system.atomic_file import write_atomically

logger = structlog.get_logger()


class OutboxReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One report on a run, with its idempotency key."""

    job_id: str
    epoch: int
    fields: dict[str, Any] = msgspec.field(name="told")
    """The JSON members of the report, except the epoch."""
    key: str
    last: bool = False
    """Whether the lease ends with this report."""
    log: str | None = None
    """The run whose log must be sent first: appending to it needs the lease."""


class Outbox:
    """A folder of reports; file names define their order."""

    def __init__(self, folder: Path) -> None:
        """Continue with the reports of an earlier process."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._next = max((int(path.stem) for path in folder.glob("*.json")), default=0) + 1
        self._unwritten: dict[Path, bytes] = {}

    def put(
        self,
        job_id: str,
        epoch: int,
        fields: dict[str, Any],
        *,
        last: bool = False,
        log: str | None = None,
    ) -> Path:
        """Store a report, in memory if the disk is full; return its file."""
        key = f"outbox-{uuid.uuid4().hex}"
        letter = OutboxReport(
            job_id=job_id, epoch=epoch, fields=fields, key=key, last=last, log=log
        )
        place = self._folder / f"{self._next:012}.json"
        self._next += 1
        data = msgspec.json.encode(letter)
        try:
            write_atomically(place, data, fsync=True, fsync_folder=True)
        except OSError as error:
            # On a full disk the report matters even more.
            logger.warning("report kept in memory only", job=job_id, reason=str(error))
            self._unwritten[place] = data
        return place

    def pending(self) -> list[Path]:
        """Return the files of undelivered reports, in order."""
        return sorted({*self._folder.glob("*.json"), *self._unwritten})

    def read(self, file: Path) -> OutboxReport:
        """Return the report in a file.

        Raises FileNotFoundError if it was removed.
        """
        data = self._unwritten.get(file) or file.read_bytes()
        return msgspec.json.decode(data, type=OutboxReport)

    def remove(self, file: Path) -> None:
        """Remove a report that was delivered, refused, or superseded."""
        self._unwritten.pop(file, None)
        file.unlink(missing_ok=True)

    def quarantine(self, file: Path, folder: Path) -> None:
        """Move a fenced report to `folder` instead of sending it."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (data := self._unwritten.pop(file, None)) is not None:
            (folder / f"report-{file.name}").write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            file.replace(folder / f"report-{file.name}")
