"""Reports that must reach the coordinator: on disk before they are sent, and sent in order."""

import contextlib
import uuid
from pathlib import Path
from typing import Any

import msgspec
import structlog

from gigafactory.system.atomic_file import write_atomically

logger = structlog.get_logger()


class OutboxReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One report on a run, with the key under which a repetition counts once."""

    job_id: str
    epoch: int
    told: dict[str, Any]
    key: str
    last: bool = False
    """Whether the lease ends with it."""
    log: str | None = None
    """The run whose log has to be there first: with the lease ends the right to add to it."""


class Outbox:
    """A folder of letters; their names are their order."""

    def __init__(self, folder: Path) -> None:
        """Go on with what an earlier start has left there."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._next = max((int(path.stem) for path in folder.glob("*.json")), default=0) + 1
        self._unwritten: dict[Path, bytes] = {}

    def put(
        self,
        job_id: str,
        epoch: int,
        told: dict[str, Any],
        *,
        last: bool = False,
        log: str | None = None,
    ) -> Path:
        """Keep a report, durably as long as the disk takes it; gives its place."""
        key = f"outbox-{uuid.uuid4().hex}"
        letter = OutboxReport(job_id=job_id, epoch=epoch, told=told, key=key, last=last, log=log)
        place = self._folder / f"{self._next:012}.json"
        self._next += 1
        data = msgspec.json.encode(letter)
        try:
            write_atomically(place, data, fsync=True, fsync_folder=True)
        except OSError as error:
            # On a full disk it is all the more important that somebody hears of it.
            logger.warning("report kept in memory only", job=job_id, reason=str(error))
            self._unwritten[place] = data
        return place

    def pending(self) -> list[Path]:
        """The places of all that has not been delivered, in order."""
        return sorted({*self._folder.glob("*.json"), *self._unwritten})

    def read(self, file: Path) -> OutboxReport:
        """The letter at a place.

        Raises FileNotFoundError for one that was taken back.
        """
        data = self._unwritten.get(file) or file.read_bytes()
        return msgspec.json.decode(data, type=OutboxReport)

    def remove(self, file: Path) -> None:
        """Forget what was delivered, was refused for good, or need not be said any more."""
        self._unwritten.pop(file, None)
        file.unlink(missing_ok=True)

    def quarantine(self, file: Path, folder: Path) -> None:
        """Keep what has become stale for somebody who wonders, instead of sending it."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (data := self._unwritten.pop(file, None)) is not None:
            (folder / f"report-{file.name}").write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            file.replace(folder / f"report-{file.name}")
