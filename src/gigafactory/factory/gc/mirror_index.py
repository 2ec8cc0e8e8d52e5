"""The mirrors on this machine, each with the address that it is from, as far as that is known."""

from collections.abc import Callable, Iterable
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.run.run_registry import RegisteredRun

REMOVED = ".old"


class KnownMirrors:
    """Mirrors that earlier runs have made."""

    def __init__(
        self, mirrors: Mirrors, repos: Repos, live: Callable[[], Iterable[RegisteredRun]]
    ) -> None:
        """`live` gives the runs that go on here, or may."""
        self._mirrors = mirrors
        self._repos = repos
        self._live = live

    def folders(self) -> list[Path]:
        """Where they are, whatever is known of them."""
        return self._mirrors.kept()

    def half_removed(self) -> list[Path]:
        """What a round that was cut short has renamed, and not removed."""
        return self._mirrors.kept(REMOVED)

    def all(self) -> list[Mirror]:
        """Those that we may talk about to their remotes."""
        found = (self.mirror(folder) for folder in self.folders())
        return [mirror for mirror in found if mirror is not None]

    def mirror(self, folder: Path) -> Mirror | None:
        """The mirror in a folder; None when its address is not known, or not allowed any more."""
        url = mirror_notes.url_of(folder)
        if url is None:
            return None
        try:
            return self._mirrors.stand_for(folder, self._repos.address_again(url))
        except Refused:
            return None

    def may_be_in_use(self, folder: Path) -> bool:
        """Whether a run that goes on could work with this mirror, now or in a moment."""
        url = mirror_notes.url_of(folder)
        return url is not None and any(self._may_mean(run, url) for run in self._live())

    def _may_mean(self, run: RegisteredRun, url: str) -> bool:
        if run.repo is None:
            # It has no repo, or that of the folder in which it works.
            return url.startswith("/")
        try:
            return self._repos.address(run.repo).url == url
        except Refused:
            return True
