"""Reports that must reach the coordinator: on disk before they are sent, and sent in order."""

import os
import uuid
from pathlib import Path
from typing import Any

import msgspec


class Letter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One report on a run, with the key under which a repetition counts once."""

    job_id: str
    epoch: int
    told: dict[str, Any]
    key: str
    last: bool = False
    """Whether the lease ends with it."""


class Outbox:
    """A folder of letters; their names are their order."""

    def __init__(self, folder: Path) -> None:
        """Go on with what an earlier start has left there."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._next = max((int(path.stem) for path in folder.glob("*.json")), default=0) + 1

    def put(self, job_id: str, epoch: int, told: dict[str, Any], *, last: bool = False) -> Path:
        """Keep a report, durably; gives its place."""
        letter = Letter(
            job_id=job_id, epoch=epoch, told=told, key=f"outbox-{uuid.uuid4().hex}", last=last
        )
        place = self._folder / f"{self._next:012}.json"
        self._next += 1
        write_durably(place, msgspec.json.encode(letter))
        return place

    def waiting(self) -> list[Path]:
        """The places of all that has not been delivered, in order."""
        return sorted(self._folder.glob("*.json"))

    def read(self, place: Path) -> Letter:
        """The letter at a place."""
        return msgspec.json.decode(place.read_bytes(), type=Letter)

    def done(self, place: Path) -> None:
        """Forget what was delivered, or was refused for good."""
        place.unlink(missing_ok=True)

    def put_aside(self, place: Path, folder: Path) -> None:
        """Keep what has become stale for somebody who wonders, instead of sending it."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.replace(folder / f"report-{place.name}")


def write_durably(place: Path, data: bytes) -> None:
    """Write a file whole or not at all, also when the machine loses power."""
    made = place.with_suffix(".tmp")
    with made.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    made.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
