"""Differences between two commits: files, line counts and text."""

import asyncio
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.diff import Change, FileChange, WorkDiff, truncate, truncation_mark
from gigafactory.factory.git.errors import GitOutputTooLong
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.secrets.redaction import redact

PATCH_BYTES_MAX = 16 * 1024 * 1024
TEXT_BYTES_MAX = 1024 * 1024
"""How much of a diff reviewers see."""
OVERLAP_BYTES = 64 * 1024
"""Read beyond that, so that a secret across the cut is recognised."""
FILES_MAX = 1000
PARSE_INLINE_MAX = 256 * 1024
"""A longer list of changes is parsed in a thread."""
_FLAGS = ("-r", "-M", "-l1000", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


class Diff(msgspec.Struct, frozen=True):
    """All changed files, ordered by path."""

    files: tuple[FileChange, ...]

    @property
    def added(self) -> int:
        """Return the number of added lines."""
        return sum(file.added for file in self.files)

    @property
    def deleted(self) -> int:
        """Return the number of deleted lines."""
        return sum(file.deleted for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every path that a scope has to allow: a renamed file has two."""
        old = (file.old_path for file in self.files if file.old_path is not None)
        return tuple(sorted({*(file.path for file in self.files), *old}))


async def compare(mirror: Mirror, base: str, commit: str) -> Diff:
    """Return what `commit` changes against `base`.

    Raises GitFailed.
    """
    output = await mirror.run(
        "diff-tree", "-z", "--raw", "--numstat", *_FLAGS, "--end-of-options", base, commit, "--"
    )
    if len(output.stdout) <= PARSE_INLINE_MAX:
        return parse_diff(output.stdout)
    return await asyncio.to_thread(parse_diff, output.stdout)


async def patch(
    mirror: Mirror, base: str, commit: str, *, bytes_max: int = PATCH_BYTES_MAX
) -> bytes:
    """Return the changes as text for `git apply`.

    Raises GitFailed, also if it is longer than `bytes_max`.
    """
    output = await mirror.run(
        *("diff-tree", "-p", "--binary", "--full-index", *_FLAGS),
        *("--end-of-options", base, commit, "--"),
        output_bytes_max=bytes_max,
    )
    return output.stdout


async def review_diff(mirror: Mirror, base: str, commit: str, secrets: Sequence[str]) -> WorkDiff:
    """Return the changes for reviewers: redacted, and cut if they are very long.

    Raises GitFailed.
    """
    comparison = await compare(mirror, base, commit)
    printed, whole = await _diff_text(mirror, base, commit)
    # Redaction of a thousand paths and a long text would hold up the other runs.
    return await asyncio.to_thread(
        _review_diff, comparison, base, commit, printed, secrets, whole=whole
    )


def _review_diff(
    comparison: Diff, base: str, commit: str, printed: bytes, secrets: Sequence[str], *, whole: bool
) -> WorkDiff:
    diff = WorkDiff(
        base=base,
        commit=commit,
        files=tuple(_redact_paths(file, secrets) for file in comparison.files[:FILES_MAX]),
        files_changed=len(comparison.files),
        lines_added=comparison.added,
        lines_deleted=comparison.deleted,
        text="",
    )
    text = redact(printed.decode("utf-8", "replace"), secrets)
    whole = whole and len(text) <= TEXT_BYTES_MAX
    if not whole:
        # Redaction may have made it short enough, but it still ends within a line.
        whole_lines = text[: text.rfind("\n") + 1]
        short = len(whole_lines) <= TEXT_BYTES_MAX
        text = (
            whole_lines + truncation_mark(whole_lines, diff.summary)
            if short
            else truncate(whole_lines, TEXT_BYTES_MAX, diff.summary)
        )
    return replace(diff, text=text, truncated=not whole)


async def _diff_text(mirror: Mirror, base: str, commit: str) -> tuple[bytes, bool]:
    """Return the text of a diff, or its beginning, and whether it is complete."""
    asked = ("diff-tree", "-p", *_FLAGS, "--end-of-options", base, commit, "--")
    try:
        output = await mirror.run(*asked, output_bytes_max=TEXT_BYTES_MAX + OVERLAP_BYTES)
    except GitOutputTooLong as much:
        return much.beginning, False
    return output.stdout, True


def _redact_paths(file: FileChange, secrets: Sequence[str]) -> FileChange:
    old_path = None if file.old_path is None else redact(file.old_path, secrets)
    return replace(file, path=redact(file.path, secrets), old_path=old_path)


_CHANGES = {
    "A": Change.ADDED,
    "C": Change.ADDED,
    "D": Change.DELETED,
    "M": Change.MODIFIED,
    "R": Change.RENAMED,
    "T": Change.TYPE,
}


def parse_diff(listing: bytes) -> Diff:
    """Parse the output of `diff-tree -z --raw --numstat`."""
    parts = iter(listing.decode("utf-8", "backslashreplace").split("\0"))
    kinds: dict[str, Change] = {}
    files: list[FileChange] = []
    for part in parts:
        if part.startswith(":"):
            kind = part.rpartition(" ")[2][:1]
            old = next(parts)
            kinds[next(parts) if kind in "RC" else old] = _CHANGES[kind]
        elif part:
            files.append(_count_lines(part, parts, kinds))
    return Diff(tuple(sorted(files, key=lambda file: file.path)))


def _count_lines(part: str, parts: Iterator[str], kinds: dict[str, Change]) -> FileChange:
    added, deleted, path = part.split("\t", 2)
    old_path = None
    if not path:
        old_path, path = next(parts), next(parts)
    binary = added == "-"
    return FileChange(
        path=path,
        change=kinds[path],
        added=0 if binary else int(added),
        deleted=0 if binary else int(deleted),
        binary=binary,
        old_path=old_path,
    )
