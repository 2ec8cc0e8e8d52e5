"""The diff of a job's work: which files, how many lines, and the text as far as it is kept."""

from enum import StrEnum

import msgspec

from gigafactory.domain.errors import Fault, Invalid

DIFF_BYTES_MAX = 16 * 1024 * 1024
"""Of the record as it is handed in, text and list of files together."""
MEDIA_TYPE = "application/json"
NAME = "diff.json"


class Change(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"
    TYPE = "type"
    """It became a link, or a file again."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file that differs."""

    path: str
    change: Change
    added: int = 0
    deleted: int = 0
    binary: bool = False
    old_path: str | None = None
    """Where it was, if it was renamed."""


class WorkDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the work of a job changes against the commit that it began from."""

    base: str
    commit: str
    """The commit that a reviewer names in a decision."""
    files: tuple[FileChange, ...] = ()
    """In the order of their paths; of very many, the first."""
    files_changed: int
    """All of them, also those that are left out."""
    lines_added: int
    lines_deleted: int
    truncated: bool = False
    """Whether the text was cut; it ends in a line that says so."""
    text: str
    """A unified diff, without what is secret."""

    @property
    def summary(self) -> str:
        """All that was changed, in a few words."""
        files = "1 file" if self.files_changed == 1 else f"{self.files_changed} files"
        return f"{files} changed, {self.lines_added} lines added, {self.lines_deleted} deleted"


def read_diff(data: bytes) -> WorkDiff:
    """Read a diff as it was handed in.

    Raises Invalid.
    """
    try:
        return msgspec.json.decode(data, type=WorkDiff)
    except msgspec.DecodeError as error:
        raise Invalid("the diff", [Fault("body", str(error))]) from None


def truncate(text: str, chars_max: int, summary: str) -> str:
    """A unified diff of at most so many characters, cut between two lines with a mark."""
    if len(text) <= chars_max:
        return text
    kept = text[: text.rfind("\n", 0, chars_max) + 1]
    return f"{kept}{truncation_mark(kept, summary)}"


def truncation_mark(kept: str, summary: str) -> str:
    """The last line of a diff that goes on; tools that apply diffs pass over such a line."""
    begun = kept.count("\ndiff --git ") + kept.startswith("diff --git ")
    return f"\\ The diff is cut here, in file {begun}. In all: {summary}.\n"
