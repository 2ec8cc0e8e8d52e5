"""A log of every commit that was tried and its result, for an independent checker."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec


class History(Protocol):
    """Records commits and their results; only allow-listed fields."""

    def record_request(self, **fields: Any) -> int:  # noqa: ANN401 - plain JSON values
        """Record a commit before it is tried; return a number for `record_response`."""

    def record_response(self, number: int, **fields: Any) -> None:  # noqa: ANN401 - plain JSON values
        """Record the result of a commit, before the caller gets it."""


class HistoryFile:
    """A history as JSON lines.

    Each line is one unbuffered write, so that it survives a SIGKILL of this process.
    """

    def __init__(self, file: BinaryIO, coordinator_id: str) -> None:
        self._file = file
        self._coordinator_id = coordinator_id
        self._numbers = itertools.count(1)

    def record_request(self, **fields: Any) -> int:  # noqa: ANN401 - plain JSON values
        number = next(self._numbers)
        self._write("asked", number, fields)
        return number

    def record_response(self, number: int, **fields: Any) -> None:  # noqa: ANN401 - plain JSON values
        self._write("answered", number, fields)

    def _write(self, kind: str, number: int, fields: dict[str, Any]) -> None:
        line = {"kind": kind, "by": self._coordinator_id, "n": number} | fields
        self._file.write(msgspec.json.encode(line) + b"\n")


@contextmanager
def history_file(path: Path, coordinator_id: str) -> Iterator[HistoryFile]:
    """Append to a history file while the coordinator runs."""
    with path.open("ab", buffering=0) as file:
        yield HistoryFile(file, coordinator_id)
