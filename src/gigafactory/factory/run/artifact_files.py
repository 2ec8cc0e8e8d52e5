"""Files that a job leaves behind: found below its worktree, and read without what is secret."""

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
from gigafactory.domain.manifest.scope import matches
from gigafactory.factory.secrets.redaction import Redactor

PIECE_BYTES = 1 << 18
LOOKED_AT_MAX = 1_000_000
"""So many entries of a worktree are gone through."""
NOT_OURS = b".git"
"""Where git keeps what it knows: never handed in."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# If it has become a pipe meanwhile, that would keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WILD = frozenset("*?")


class NotCaptured(Exception):  # noqa: N818 - named after what happened
    """A file that is not handed in, and why; the run goes on without it."""


class Found(NamedTuple):
    """What the globs mean in a worktree, in the order of the names."""

    names: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """What they mean too and cannot be handed in, and why."""
    missing: tuple[str, ...]
    """Globs that mean nothing that is there."""


class Captured:
    """One file as it may leave this machine: a copy without a name, gone when it is closed."""

    def __init__(self, name: str, folder: Path) -> None:
        """Begin empty; the copy takes its room on the disk of this folder."""
        self.name = name
        self.media_type = media_type_of(name)
        self.purpose = Purpose.FILE
        self.size = 0
        self.redacted = False
        """Whether something in it was replaced."""
        self._digest = hashlib.sha256()
        # Closed by whoever holds this; without a name, also a crash leaves nothing of it.
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
        """Let the copy go."""
        self._copy.close()

    @property
    def sha256(self) -> str:
        """The hash of what may leave."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """What may leave, from the beginning, as often as it is asked for."""
        at = 0
        while piece := os.pread(self._copy.fileno(), PIECE_BYTES, at):
            at += len(piece)
            yield piece

    def take(self, source: int, secrets: Sequence[str], *, bytes_max: int) -> None:
        """Copy an open file, without what must not leave.

        Raises NotCaptured for what is too large, or is no text and would lose its sense; OSError.
        """
        before, text, redactor = hashlib.sha256(), _Text(), Redactor(secrets)
        left = bytes_max
        while piece := os.read(source, PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                raise NotCaptured(f"it has more than {bytes_max} bytes")
            before.update(piece)
            text.feed(piece)
            self._keep(redactor.feed(piece))
        self._keep(redactor.end())
        self.redacted = before.digest() != self._digest.digest()
        if self.redacted and not text.whole:
            raise NotCaptured("something secret, or what looks so, is in it, and it is no text")

    def _keep(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)
        while piece:
            piece = piece[self._copy.write(piece) :]


class _Text:
    """Whether bytes are a text, in which something can be replaced."""

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
) -> Captured:
    """A file below the worktree, reached through folders alone and never through a link.

    It is the caller's to close. Raises NotCaptured.
    """
    try:
        source = _reach(worktree, os.fsencode(name))
    except OSError as error:
        raise NotCaptured(f"it cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode):
            raise NotCaptured("it is no plain file")
        if found.st_size > bytes_max:
            raise NotCaptured(f"it has {found.st_size} bytes, of at most {bytes_max}")
        return _copied(source, name, secrets, folder, bytes_max)
    except OSError as error:
        raise NotCaptured(f"it cannot be copied: {error.strerror}") from None
    finally:
        os.close(source)


def _copied(
    source: int, name: str, secrets: Sequence[str], folder: Path, bytes_max: int
) -> Captured:
    captured = Captured(name, folder)
    try:
        captured.take(source, secrets, bytes_max=bytes_max)
    except (NotCaptured, OSError):
        captured.close()
        raise
    return captured


def _reach(worktree: Path, path: bytes) -> int:
    *folders, name = path.split(b"/")
    at = os.open(worktree, _FOLDER)
    try:
        for folder in folders:
            above, at = at, os.open(folder, _FOLDER, dir_fd=at)
            os.close(above)
        return os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)


def find(worktree: Path, globs: Sequence[str]) -> Found:
    """All that these globs mean below a worktree; a name without a slash is one at its top."""
    # For scopes such a name means one in any folder; there would be too many of those here.
    anchored = {glob: "/" + glob.removeprefix("./") for glob in globs}
    names: list[str] = []
    left_out: list[tuple[str, str]] = []
    for path, plain in _entries(worktree, tuple(map(_literal, globs))):
        shown = path.decode("utf-8", "backslashreplace")
        if not matches(shown, anchored.values()):
            continue
        try:
            name = artifact_name(path.decode())
        except UnicodeDecodeError:
            left_out.append((shown, "its name is no text"))
        except ValueError as expected:
            left_out.append((shown, f"its name is not {expected}"))
        else:
            if plain:
                names.append(name)
            else:
                left_out.append((name, "it is a link, or no plain file"))
    known = [*names, *(name for name, _ in left_out)]
    missing = [glob for glob in globs if not any(matches(n, (anchored[glob],)) for n in known)]
    return Found(tuple(sorted(names)), tuple(sorted(left_out)), tuple(missing))


def _literal(glob: str) -> str:
    """The folders of a glob before its first wildcard: nothing elsewhere can match."""
    parts = glob.removeprefix("./").rstrip("/").split("/")
    plain = [part if _WILD.isdisjoint(part) else None for part in parts]
    return "/".join(parts[: plain.index(None) if None in plain else len(parts)])


def _entries(worktree: Path, within: Iterable[str]) -> Iterator[tuple[bytes, bool]]:
    """Files and links below a folder, with whether they are plain files; links lead nowhere."""
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
                if entry.name != NOT_OURS and any(_may_hold(path, place) for place in wanted):
                    waiting.append(path)
            elif path != NOT_OURS:
                yield path, entry.is_file(follow_symlinks=False)
        if looked_at > LOOKED_AT_MAX:
            return


def _may_hold(folder: bytes, place: bytes) -> bool:
    """Whether what is meant can be in a folder: it is on the way there, or beyond."""
    inside = folder == place or folder.startswith(place + b"/") or not place
    return inside or place.startswith(folder + b"/")
