"""The diff of a job's work: changed files, line counts and the (possibly truncated) text."""

from enum import StrEnum

import msgspec

from gigafactory.domain.errors import Fault, Invalid

DIFF_BYTES_MAX = 16 * 1024 * 1024
"""The limit of an uploaded diff, text and file list together."""
MEDIA_TYPE = "application/json"
NAME = "diff.json"


class Change(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    TYPE = "type"
    """It became a symbolic link, or a regular file again."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One changed file."""

    path: str
    change: Change
    added: int = 0
    deleted: int = 0
    binary: bool = False
    old_path: str | None = None
    """The former path of a renamed file."""


class WorkDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes of a job against its base commit."""

    base: str
    commit: str
    """The commit that a review decision refers to."""
    files: tuple[FileChange, ...] = ()
    """Sorted by path; only the first ones if there are very many."""
    files_changed: int
    """The number of all changed files, including omitted ones."""
    lines_added: int
    lines_deleted: int
    truncated: bool = False
    """Whether the text was truncated; its last line then says so."""
    text: str
    """A unified diff with secrets redacted."""

    @property
    def summary(self) -> str:
        """One line: files changed, lines added, lines deleted."""
        files = "1 file" if self.files_changed == 1 else f"{self.files_changed} files"
        added = "1 line" if self.lines_added == 1 else f"{self.lines_added} lines"
        return f"{files} changed, {added} added, {self.lines_deleted} deleted"


def read_diff(data: bytes) -> WorkDiff:
    """Decode an uploaded diff.

    Raises Invalid.
    """
    try:
        return msgspec.json.decode(data, type=WorkDiff)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("the diff", [Fault("body", str(error))]) from None


def truncate(text: str, chars_max: int, summary: str) -> str:
    """Return a unified diff of at most `chars_max` characters, cut between lines and marked."""
    if len(text) <= chars_max:
        return text
    head = text[: text.rfind("\n", 0, chars_max) + 1]
    return f"{head}{truncation_mark(head, summary)}"


def truncation_mark(head: str, summary: str) -> str:
    """Return the last line of a truncated diff; tools that apply diffs ignore it."""
    files = head.count("\ndiff --git ") + head.startswith("diff --git ")
    return f"\\ The diff is cut here, in file {files}. In all: {summary}.\n"
