"""Finds artifacts below a worktree, and captures redacted copies of them for upload."""

import codecs
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gigafactory.client.transport.upload import media_type_of
from gigafactory.domain.job.artifact import Purpose, artifact_name
from gigafactory.domain.manifest.scope import matches_any
from gigafactory.factory.secrets.redaction import Redactor

PIECE_BYTES = 1 << 18
ENTRIES_MAX = 1_000_000
"""Upper limit of worktree entries that are examined."""
GIT_DIR = b".git"
"""Git's own data is never uploaded."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK: opening a path that became a pipe would block until it has a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WILD = frozenset("*?")


class ArtifactRejected(Exception):  # noqa: N818 - named after what happened
    """A file that is not uploaded, and why; the run continues without it."""


class ArtifactMatches(NamedTuple):
    """The files that match the artifact globs, sorted by name."""

    names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    """Matches that cannot be uploaded, each with the reason."""
    missing: tuple[str, ...]
    """Globs without any match."""


class CapturedFile:
    """A redacted copy of one file, in an unnamed temporary file."""

    def __init__(self, name: str, folder: Path) -> None:
        """Store the copy on the disk of `folder`."""
        self.name = name
        self.media_type = media_type_of(name)
        self.purpose = Purpose.FILE
        self.size = 0
        self.redacted = False
        """Whether secrets were replaced."""
        self._digest = hashlib.sha256()
        # The caller closes it; without a name, nothing remains after a crash.
        self._copy = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Discard the copy."""
        self._copy.close()

    @property
    def sha256(self) -> str:
        """The SHA-256 hash of the redacted content."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield the redacted content; can be called repeatedly."""
        at = 0
        while piece := os.pread(self._copy.fileno(), PIECE_BYTES, at):
            at += len(piece)
            yield piece

    def copy_from(self, source: int, secrets: Sequence[str], *, bytes_max: int) -> None:
        """Copy an open file, and redact secrets.

        Raises ArtifactRejected if it is too large, or is binary and contains a secret; OSError.
        """
        before, text, redactor = hashlib.sha256(), _Text(), Redactor(secrets)
        left = bytes_max
        while piece := os.read(source, PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                raise ArtifactRejected(f"it is larger than {bytes_max} bytes")
            before.update(piece)
            text.feed(piece)
            self._keep(redactor.feed(piece))
        self._keep(redactor.finish())
        self.redacted = before.digest() != self._digest.digest()
        if self.redacted and not text.whole:
            raise ArtifactRejected("it seems to contain a secret, and is not text")

    def _keep(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)
        while piece:
            piece = piece[self._copy.write(piece) :]


class _Text:
    """Detects whether bytes are text, so that redaction does not corrupt them."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._good = True

    def feed(self, piece: bytes) -> None:
        if self._good:
            try:
                self._decoder.decode(piece)
            except UnicodeDecodeError:
                self._good = False
            self._good = self._good and b"\0" not in piece

    @property
    def whole(self) -> bool:
        return self._good


def capture(
    worktree: Path, name: str, secrets: Sequence[str], folder: Path, *, bytes_max: int
) -> CapturedFile:
    """Return a redacted copy of a file below the worktree; never follow links.

    The caller closes the copy. Raises ArtifactRejected.
    """
    try:
        source = _open_beneath(worktree, os.fsencode(name))
    except OSError as error:
        raise ArtifactRejected(f"it cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactRejected("it is not a regular file")
        if status.st_size > bytes_max:
            raise ArtifactRejected(
                f"it has {status.st_size} bytes; at most {bytes_max} are allowed"
            )
        return _copy(source, name, secrets, folder, bytes_max)
    except OSError as error:
        raise ArtifactRejected(f"it cannot be copied: {error.strerror}") from None
    finally:
        os.close(source)


def _copy(
    source: int, name: str, secrets: Sequence[str], folder: Path, bytes_max: int
) -> CapturedFile:
    captured = CapturedFile(name, folder)
    try:
        captured.copy_from(source, secrets, bytes_max=bytes_max)
    except (ArtifactRejected, OSError):
        captured.close()
        raise
    return captured


def _open_beneath(worktree: Path, path: bytes) -> int:
    *folders, name = path.split(b"/")
    at = os.open(worktree, _FOLDER)
    try:
        for folder in folders:
            above, at = at, os.open(folder, _FOLDER, dir_fd=at)
            os.close(above)
        return os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)


def find_artifacts(worktree: Path, globs: Sequence[str]) -> ArtifactMatches:
    """Find the files below a worktree that match the globs.

    A glob without a slash matches only at the top of the worktree.
    """
    # In scopes, a name without a slash matches in every folder; here that would match too much.
    anchored = {glob: "/" + glob.removeprefix("./") for glob in globs}
    names: list[str] = []
    left_out: list[tuple[str, str]] = []
    for path, plain in _entries(worktree, tuple(map(_literal_prefix, globs))):
        readable_path = path.decode("utf-8", "backslashreplace")
        if not matches_any(readable_path, anchored.values()):
            continue
        try:
            name = artifact_name(path.decode())
        except UnicodeDecodeError:
            left_out.append((readable_path, "its name is not valid UTF-8"))
        except ValueError as expected:
            left_out.append((readable_path, f"its name is not {expected}"))
        else:
            if plain:
                names.append(name)
            else:
                left_out.append((name, "it is a link or not a regular file"))
    seen_names = [*names, *(name for name, _ in left_out)]
    missing = [
        glob for glob in globs if not any(matches_any(n, (anchored[glob],)) for n in seen_names)
    ]
    return ArtifactMatches(tuple(sorted(names)), tuple(sorted(left_out)), tuple(missing))


def _literal_prefix(glob: str) -> str:
    """Return the folders of a glob before its first wildcard; matches are below them."""
    parts = glob.removeprefix("./").rstrip("/").split("/")
    plain = [part if _WILD.isdisjoint(part) else None for part in parts]
    return "/".join(parts[: plain.index(None) if None in plain else len(parts)])


def _entries(worktree: Path, within: Iterable[str]) -> Iterator[tuple[bytes, bool]]:
    """Yield files and links with whether they are regular files; do not follow links."""
    wanted = [os.fsencode(place) for place in within]
    waiting = [b""]
    looked_at = 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(os.fsencode(worktree), folder)))  # noqa: PTH118 - names need not be text
        except OSError:
            continue
        for entry in entries:
            looked_at += 1
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name != GIT_DIR and any(_may_contain(path, place) for place in wanted):
                    waiting.append(path)
            elif path != GIT_DIR:
                yield path, entry.is_file(follow_symlinks=False)
        if looked_at > ENTRIES_MAX:
            return


def _may_contain(folder: bytes, prefix: bytes) -> bool:
    """Whether matches may be in a folder: it is above or below the prefix."""
    inside = folder == prefix or folder.startswith(prefix + b"/") or not prefix
    return inside or prefix.startswith(folder + b"/")
