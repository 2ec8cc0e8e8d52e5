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
        files = {path: _stamp(path) for path in sorted(self._board.profiles.glob("*.md"))}
        if files == self._seen:
            return
        self._own = {}
        for path in files:
            self._read_file(path)
        self._seen = files

    def profile(self, reference: str | None) -> Profile | None:
        """Return the profile `name` or `name@version` of a manifest; None if it names none.

        Raises Invalid with the known ones, or with the faults of the folder's own.
        """
        if reference is None:
            return None
        name, version = profile_reference(reference)
        current = self._own.get(name) or self._shipped.get(name)
        if isinstance(current, Invalid):
            raise current
        if version is not None:
            current = next((one for one in self._versions(name) if one.version == version), None)
        if current is None:
            raise unknown_profile(reference, {*self._own, *self._shipped})
        return current

    def _read_file(self, path: Path) -> None:
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
        self._own[written.name] = self._save_version(written)

    def _save_version(self, written: Profile) -> Profile:
        """Return the newest version if nothing has changed, otherwise the next one."""
        versions = list(self._versions(written.name))
        newest = versions[-1] if versions else None
        if newest is not None and newest == replace(
            written, version=newest.version, product_id=newest.product_id
        ):
            return newest
        version = newest.version + 1 if newest is not None else 1
        saved = replace(written, version=version, product_id=DEFAULT_PRODUCT)
        write_atomically(
            self._version_file(written.name, version), msgspec.json.encode(saved), fsync=True
        )
        return saved

    def _versions(self, name: str) -> Iterator[Profile]:
        """All versions, the oldest first."""
        if name in self._shipped:
            yield self._shipped[name]
        for path in sorted(self._board.versions.glob(f"{name}@*.json")):
            yield msgspec.json.decode(path.read_bytes(), type=Profile)

    def _version_file(self, name: str, version: int) -> Path:
        self._board.versions.mkdir(exist_ok=True)
        return self._board.versions / f"{name}@{version:06}.json"


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
