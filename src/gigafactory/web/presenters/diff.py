"""Parse a unified diff into files and numbered lines."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_NUMBER = r"([0-9]{1,9})"
_HUNK = re.compile(rf"@@ -{_NUMBER}(?:,{_NUMBER})? \+{_NUMBER}(?:,{_NUMBER})? @@")
_HEAD = ("diff --git a/", 'diff --git "a/')
LINES_MAX = 20_000
"""Maximum number of lines on a page."""
READ_MAX = 5 * LINES_MAX
"""Maximum number of lines that are looked at: headers of files are not shown."""
FILES_MAX = 1000


class DiffLine(NamedTuple):
    """One line of a diff, with its old and new line number."""

    kind: str
    """`add`, `del`, `same` or `hunk` (a hunk header)."""
    old: int | None
    new: int | None
    text: str


class FileDiff(NamedTuple):
    """The changed lines of one file."""

    path: str
    lines: list[DiffLine]


def parse_diff(text: str) -> list[FileDiff]:
    """Parse a diff, which may be truncated, and return its files in order."""
    files: list[FileDiff] = []
    left = LINES_MAX
    for file in _files(text.split("\n", READ_MAX)[:READ_MAX]):
        files.append(FileDiff(file.path, file.lines[:left]))
        left -= len(file.lines)
        if left <= 0 or len(files) == FILES_MAX:
            break
    return files


def _files(lines: list[str]) -> Iterator[FileDiff]:
    file: FileDiff | None = None
    old = new = 0
    pending_old = pending_new = 0
    for line in lines:
        if not pending_old and not pending_new and (path := _new_path(line)) is not None:
            if file is not None:
                yield file
            file = FileDiff(path, [])
        elif file is not None and not pending_old and not pending_new and (at := _HUNK.match(line)):
            old, new = int(at[1]), int(at[3])
            pending_old, pending_new = int(at[2] or 1), int(at[4] or 1)
            file.lines.append(DiffLine("hunk", None, None, line))
        elif file is not None and (pending_old or pending_new):
            sign, content = line[:1], line[1:]
            if sign == "+":
                file.lines.append(DiffLine("add", None, new, content))
                new, pending_new = new + 1, pending_new - 1
            elif sign == "-":
                file.lines.append(DiffLine("del", old, None, content))
                old, pending_old = old + 1, pending_old - 1
            elif sign != "\\":
                file.lines.append(DiffLine("same", old, new, content))
                old, new, pending_old, pending_new = (
                    old + 1,
                    new + 1,
                    pending_old - 1,
                    pending_new - 1,
                )
    if file is not None:
        yield file


def _new_path(line: str) -> str | None:
    """Return the new path in the first line of a file's diff; None for another line."""
    _, separator, path = line.replace(' "b/', " b/").rpartition(" b/")
    return path.removesuffix('"') if separator and line.startswith(_HEAD) else None
