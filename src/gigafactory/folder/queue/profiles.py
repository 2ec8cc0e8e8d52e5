"""The settings of a folder: its own profiles over the shipped ones, and its protected paths."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import structlog
from msgspec.structs import replace

from gigafactory.domain.errors import Invalid
from gigafactory.domain.manifest.names import profile_reference
from gigafactory.domain.manifest.profile import Profile, parse_profile_file, unknown_profile
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.folder.queue.board import Board
from gigafactory.system.atomic_file import write_atomically

log = structlog.get_logger()


class FolderProfiles:
    """Profiles and protected paths of one folder; changed profiles are read again."""

    def __init__(
        self, board: Board, shipped: Mapping[str, Profile], *, protected: tuple[str, ...] = ()
    ) -> None:
        """Use the shipped profiles where the folder has none of its own."""
        self._board = board
        self._shipped = shipped
        self.protected = protected
        """Globs of what people must look at when it was changed."""
        self._own: dict[str, Profile | Invalid] = {}
        self._seen: dict[Path, tuple[int, int]] = {}

    def look(self) -> None:
        """Read the profiles of the folder; a changed one is a new version."""
        files = {path: _mark(path) for path in sorted(self._board.profiles.glob("*.md"))}
        if files == self._seen:
            return
        self._own = {}
        for path in files:
            self._learn(path)
        self._seen = files

    def profile(self, reference: str | None) -> Profile | None:
        """Return the profile `name` or `name@version` of a manifest; None if it names none.

        Raises Invalid with the known ones, or with the faults of the folder's own.
        """
        if reference is None:
            return None
        name, version = profile_reference(reference)
        found = self._own.get(name) or self._shipped.get(name)
        if isinstance(found, Invalid):
            raise found
        if version is not None:
            found = next((one for one in self._versions(name) if one.version == version), None)
        if found is None:
            raise unknown_profile(reference, {*self._own, *self._shipped})
        return found

    def _learn(self, path: Path) -> None:
        try:
            written = parse_profile_file(path.read_bytes())
        except FileNotFoundError:
            return
        except Invalid as invalid:
            wrong = Invalid(f"the profile {path.name}", invalid.faults)
            log.warning("not a profile", file=path.name, reason=wrong.detail)
            # Its name itself may be invalid: use the file's.
            self._own.setdefault(path.stem, wrong)
            return
        self._own[written.name] = self._saved(written)

    def _saved(self, written: Profile) -> Profile:
        """Return the newest version if nothing has changed, otherwise the next one."""
        known = list(self._versions(written.name))
        newest = known[-1] if known else None
        if newest is not None and newest == replace(
            written, version=newest.version, product_id=newest.product_id
        ):
            return newest
        version = newest.version + 1 if newest is not None else 1
        saved = replace(written, version=version, product_id=DEFAULT_PRODUCT)
        write_atomically(self._place(written.name, version), msgspec.json.encode(saved), fsync=True)
        return saved

    def _versions(self, name: str) -> Iterator[Profile]:
        """All versions, the oldest first."""
        if name in self._shipped:
            yield self._shipped[name]
        for path in sorted(self._board.versions.glob(f"{name}@*.json")):
            yield msgspec.json.decode(path.read_bytes(), type=Profile)

    def _place(self, name: str, version: int) -> Path:
        self._board.versions.mkdir(exist_ok=True)
        return self._board.versions / f"{name}@{version:06}.json"


def _mark(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
