"""A unified diff taken apart for people to read: files, and lines with their numbers."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PATHS = re.compile(r'diff --git (?:"?a/.*"?) "?b/(?P<path>.*?)"?$')
LINES_MAX = 20_000
"""So many lines a page shows; the rest is in the text."""


class Line(NamedTuple):
    """One line of a file, as it was, as it is, or both."""

    kind: str
    """`add`, `del`, `same`, or `hunk` for the head of a stretch."""
    old: int | None
    new: int | None
    text: str


class FileLines(NamedTuple):
    """What differs in one file."""

    path: str
    lines: list[Line]


def files_in(text: str) -> list[FileLines]:
    """The files of a diff in their order; of one that is cut, as far as it goes."""
    found: list[FileLines] = []
    left = LINES_MAX
    for file in _files(text.split("\n")):
        found.append(FileLines(file.path, file.lines[:left]))
        left -= len(file.lines)
        if left <= 0:
            break
    return found


def _files(lines: list[str]) -> Iterator[FileLines]:
    file: FileLines | None = None
    old = new = 0
    owed_old = owed_new = 0
    for line in lines:
        if not owed_old and not owed_new and (head := _PATHS.match(line)):
            if file is not None:
                yield file
            file = FileLines(head["path"], [])
        elif file is not None and not owed_old and not owed_new and (at := _HUNK.match(line)):
            old, new = int(at[1]), int(at[3])
            owed_old, owed_new = int(at[2] or 1), int(at[4] or 1)
            file.lines.append(Line("hunk", None, None, line))
        elif file is not None and (owed_old or owed_new):
            sign, words = line[:1], line[1:]
            if sign == "+":
                file.lines.append(Line("add", None, new, words))
                new, owed_new = new + 1, owed_new - 1
            elif sign == "-":
                file.lines.append(Line("del", old, None, words))
                old, owed_old = old + 1, owed_old - 1
            elif sign != "\\":
                file.lines.append(Line("same", old, new, words))
                old, new, owed_old, owed_new = old + 1, new + 1, owed_old - 1, owed_new - 1
    if file is not None:
        yield file
