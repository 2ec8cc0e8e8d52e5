"""Parse a unified diff into files and numbered lines."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PATHS = re.compile(r'diff --git (?:"?a/.*"?) "?b/(?P<path>.*?)"?$')
LINES_MAX = 20_000
"""Maximum number of lines on a page."""


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
    for file in _files(text.split("\n")):
        files.append(FileDiff(file.path, file.lines[:left]))
        left -= len(file.lines)
        if left <= 0:
            break
    return files


def _files(lines: list[str]) -> Iterator[FileDiff]:
    file: FileDiff | None = None
    old = new = 0
    pending_old = pending_new = 0
    for line in lines:
        if not pending_old and not pending_new and (head := _PATHS.match(line)):
            if file is not None:
                yield file
            file = FileDiff(head["path"], [])
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
