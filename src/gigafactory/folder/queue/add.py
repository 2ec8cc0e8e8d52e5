"""Adds files to the inbox: all of them, validated and complete, or none."""

from collections.abc import Sequence
from pathlib import Path

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.folder.queue.board import SUFFIX, Board
from gigafactory.system.atomic_file import write_atomically


def add(board: Board, files: Sequence[Path]) -> list[Path]:
    """Copy files into the inbox, and return their new paths.

    Raises Invalid with the faults of all files; then none is copied.
    """
    read = [(file, _read(file)) for file in files]
    faults = [fault for file, data in read for fault in _faults(file, data)]
    if faults:
        raise Invalid("the file to add", faults)
    board.create()
    added = []
    for file, data in read:
        place = board.column("inbox") / f"{board.free_stem(file.stem)}{SUFFIX}"
        write_atomically(place, data, fsync=True)
        added.append(place)
    return added


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fault = Fault("", f"{file} cannot be read: {error.strerror}")
        raise Invalid("the file to add", [fault]) from None


def _faults(file: Path, data: bytes) -> list[Fault]:
    if not data.strip():
        return [Fault(str(file), "is empty; expected instructions")]
    try:
        parse_job_file(data, stem=file.stem)
    except Invalid as invalid:
        return [Fault(str(file), str(fault)) for fault in invalid.faults]
    return []
