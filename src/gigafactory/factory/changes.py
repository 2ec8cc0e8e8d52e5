"""What lies between two commits: which files, how many lines, and the text of it."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from gigafactory.factory.mirror import Mirror

PATCH_BYTES_MAX = 16 * 1024 * 1024
_FLAGS = ("-r", "-M", "-l1000", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")


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


class Diff(msgspec.Struct, frozen=True):
    """All that differs, in the order of the paths."""

    files: tuple[FileChange, ...]

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(file.added for file in self.files)

    @property
    def deleted(self) -> int:
        """Lines that are gone."""
        return sum(file.deleted for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that a scope has to allow: a renamed file has two."""
        old = (file.old_path for file in self.files if file.old_path is not None)
        return tuple(sorted({*(file.path for file in self.files), *old}))


async def changes(mirror: Mirror, base: str, commit: str) -> Diff:
    """What `commit` changes against `base`.

    Raises GitFailed.
    """
    output = await mirror.run(
        "diff-tree", "-z", "--raw", "--numstat", *_FLAGS, "--end-of-options", base, commit, "--"
    )
    return parse(output.stdout)


async def patch(
    mirror: Mirror, base: str, commit: str, *, bytes_max: int = PATCH_BYTES_MAX
) -> bytes:
    """The same as text that `git apply` takes.

    Raises GitFailed, also when it is longer than `bytes_max`.
    """
    output = await mirror.run(
        *("diff-tree", "-p", "--binary", "--full-index", *_FLAGS),
        *("--end-of-options", base, commit, "--"),
        output_bytes_max=bytes_max,
    )
    return output.stdout


_CHANGES = {
    "A": Change.ADDED,
    "C": Change.ADDED,
    "D": Change.DELETED,
    "M": Change.MODIFIED,
    "R": Change.RENAMED,
    "T": Change.TYPE,
}


def parse(listing: bytes) -> Diff:
    """Read what `diff-tree -z --raw --numstat` prints."""
    parts = iter(listing.decode("utf-8", "backslashreplace").split("\0"))
    kinds: dict[str, Change] = {}
    files: list[FileChange] = []
    for part in parts:
        if part.startswith(":"):
            kind = part.rpartition(" ")[2][:1]
            old = next(parts)
            kinds[next(parts) if kind in "RC" else old] = _CHANGES[kind]
        elif part:
            files.append(_counted(part, parts, kinds))
    return Diff(tuple(sorted(files, key=lambda file: file.path)))


def _counted(part: str, parts: Iterator[str], kinds: dict[str, Change]) -> FileChange:
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
